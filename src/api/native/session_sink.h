#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/result.h"
#include "http/message.h"

namespace onggi::api {

// Feeds a request's body to a session of the services (buffer, commit, finish, abandon). The
// session is gone, with whatever it locks, before the response can reach the client.
template <typename Session>
class SessionSink final : public http::Sink {
 public:
  using Complete = std::function<Result<http::Response>(Session& session)>;
  using Fail = std::function<http::Response(const Error& error)>;

  SessionSink(std::unique_ptr<Session> session, Complete complete, Fail fail)
      : session_(std::move(session)), complete_(std::move(complete)), fail_(std::move(fail)) {}

  std::span<std::byte> buffer() override { return session_->buffer(); }

  Status commit(std::size_t bytes) override {
    Status status = session_->commit(bytes);
    if (!status) error_ = status.error();
    return status;
  }

  http::Response finish() override {
    Result<http::Response> result =
        error_ ? Result<http::Response>(tl::unexpected(*error_)) : complete_(*session_);
    if (error_) session_->abandon();
    session_.reset();
    return result ? *std::move(result) : fail_(result.error());
  }

  void abandon() override {
    session_->abandon();
    session_.reset();
  }

 private:
  std::unique_ptr<Session> session_;
  const Complete complete_;
  const Fail fail_;
  std::optional<Error> error_;
};

template <typename Session>
http::Intake take_into(std::unique_ptr<Session> session,
                       typename SessionSink<Session>::Complete complete,
                       typename SessionSink<Session>::Fail fail) {
  http::Intake intake;
  intake.sink = std::make_unique<SessionSink<Session>>(std::move(session), std::move(complete),
                                                       std::move(fail));
  return intake;
}

}  // namespace onggi::api
