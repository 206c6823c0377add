#pragma once

#include <memory>
#include <string>

#include "http/body_reader.h"
#include "http/connection.h"
#include "http/head_parser.h"
#include "http/outgoing.h"

namespace onggi::http {

// One request and its response. Lives from the end of the head to the end of the response.
struct Connection::Exchange {
  explicit Exchange(Head from) : head(std::move(from)), body(head.request) {}

  Head head;
  BodyReader body;
  const Router::Route* route = nullptr;
  bool unread = false;   // the peer may still send what nobody will read
  bool refused = false;  // its head made no sense, so that nothing is known of it
  int status = 0;

  std::unique_ptr<Sink> sink;
  IoState wanted = IoState::ready;  // what a paused sink waits for

  std::unique_ptr<Outgoing> out;

  std::unique_ptr<Stream> stream;
  std::string stream_head;
  Framing stream_framing = Framing::chunked;
};

}  // namespace onggi::http
