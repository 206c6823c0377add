#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "http/event_loop.h"
#include "http/message.h"

namespace onggi::http {

// Accepts connections of one listening socket on the loop's thread.
class Listener final : public Watcher {
 public:
  using Accept = std::function<void(FileDescriptor socket, Peer peer)>;

  static Result<std::unique_ptr<Listener>> tcp(const std::string& address, std::uint16_t port);
  // Replaces a socket file that nobody listens on; already_exists when somebody does.
  static Result<std::unique_ptr<Listener>> unix_socket(const std::string& path);
  ~Listener() override;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  Listener(Listener&&) = delete;
  Listener& operator=(Listener&&) = delete;

  std::uint16_t port() const;
  Status start(EventLoop& loop, Accept accept);
  // On the loop's thread, or when it does not run.
  void close();
  // Accepts again after the process ran out of descriptors.
  void on_tick();
  void on_ready(std::uint32_t events) override;

 private:
  Listener(FileDescriptor socket, std::string path);

  FileDescriptor socket_;
  const std::string path_;  // of a Unix socket
  EventLoop* loop_ = nullptr;
  Accept accept_;
  bool starved_ = false;
};

}  // namespace onggi::http
