#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

namespace onggi::cli {

enum class Tone { plain, good, warning, bad, faint, strong };

// What a stream can show.
struct Terminal {
  bool is_terminal = false;
  bool colors = false;
  std::size_t columns = 80;

  static Terminal of(int fd);
  std::string paint(std::string_view text, Tone tone) const;
};

// Columns under a heading, for people. Numbers are right-aligned.
class Table {
 public:
  struct Column {
    std::string heading;
    bool is_number = false;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::size_t rows() const { return rows_.size(); }
  std::string text(const Terminal& terminal) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "1.4 GiB"; exact below 1 KiB.
std::string human_size(std::uint64_t bytes);
// "1,234,567".
std::string exact(std::uint64_t number);
// "3 min 20 s".
std::string human_duration(double seconds);
// "1.4G", "500k", "12": accepts what people write; 1024-based. 0 with `ok` false when malformed.
std::uint64_t parse_size(std::string_view text, bool& ok);

// The text of a member, or what a person reads for it; empty when absent.
std::string text_of(const boost::json::value& object, std::string_view key);
std::uint64_t number_of(const boost::json::value& object, std::string_view key);
// The member's value, null when absent.
const boost::json::value& member(const boost::json::value& object, std::string_view key);

// Indented JSON with a newline at the end.
std::string pretty(const boost::json::value& value);

// Control characters replaced, so that a name cannot drive the terminal.
std::string printable(std::string_view text);

}  // namespace onggi::cli
