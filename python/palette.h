#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace onggi::python {

// A lossless short form for float tensors that come from bytes: pixels that were divided by 255 and
// normalised have at most 256 different values a channel, so each can travel as one byte and a
// table. Works on bit patterns: what comes back is the same to the last bit, whatever the values
// are.
inline constexpr std::size_t kPaletteSize = 256;

// The values of one channel seen so far, by number, and their numbers by value.
class Palette {
 public:
  // False when the value would be the 257th.
  bool number_of(std::uint32_t bits, std::uint8_t& number) {
    std::size_t slot = (bits * 0x9e3779b1U) >> kShift;
    while (used_[slot] != 0) {
      if (keys_[slot] == bits) {
        number = numbers_[slot];
        return true;
      }
      slot = (slot + 1) % kSlots;
    }
    if (count_ == kPaletteSize) return false;
    used_[slot] = 1;
    keys_[slot] = bits;
    values_[count_] = bits;
    number = numbers_[slot] = static_cast<std::uint8_t>(count_++);
    return true;
  }

  std::span<const std::uint32_t, kPaletteSize> values() const { return values_; }

 private:
  static constexpr std::size_t kSlots = 1024;  // a quarter full at most
  static constexpr unsigned kShift = 32 - std::countr_zero(kSlots);

  std::array<std::uint32_t, kSlots> keys_{};
  std::array<std::uint8_t, kSlots> numbers_{};
  std::array<std::uint8_t, kSlots> used_{};
  std::array<std::uint32_t, kPaletteSize> values_{};
  std::size_t count_ = 0;
};

// Numbers `values`, laid out as [any, channels, plane], into `indices` of the same length, and
// writes each channel's 256 values to `tables`. False when a channel has more than 256.
inline bool palette_encode(std::span<const std::uint32_t> values, std::size_t channels,
                           std::size_t plane, std::span<std::uint8_t> indices,
                           std::span<std::uint32_t> tables) {
  std::vector<Palette> palettes(channels);
  for (std::size_t at = 0; at < values.size();) {
    Palette& palette = palettes[at / plane % channels];
    for (const std::size_t end = at + plane; at < end; ++at) {
      if (!palette.number_of(values[at], indices[at])) return false;
    }
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const auto known = palettes[c].values();
    std::copy(known.begin(), known.end(),
              tables.begin() + static_cast<std::ptrdiff_t>(c * kPaletteSize));
  }
  return true;
}

// The inverse.
inline void palette_decode(std::span<const std::uint8_t> indices, std::size_t channels,
                           std::size_t plane, std::span<const std::uint32_t> tables,
                           std::span<std::uint32_t> values) {
  for (std::size_t at = 0; at < indices.size();) {
    const std::uint32_t* table = &tables[at / plane % channels * kPaletteSize];
    for (const std::size_t end = at + plane; at < end; ++at) values[at] = table[indices[at]];
  }
}

}  // namespace onggi::python
