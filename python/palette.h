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

// The values of one channel seen so far, by number, and their numbers by value. Sixteen times more
// slots than values: collisions, which the processor cannot predict, are then rare.
class Palette {
 public:
  // False when the value would be the 257th.
  bool number_of(std::uint32_t bits, std::uint8_t& number) {
    std::size_t slot = (bits * 0x9e3779b1U) >> kShift;
    for (std::uint64_t entry = 0; (entry = slots_[slot]) != 0; slot = (slot + 1) % kSlots) {
      if (static_cast<std::uint32_t>(entry) == bits) {
        number = static_cast<std::uint8_t>(entry >> kNumberShift);
        return true;
      }
    }
    return add(bits, slot, number);
  }

  std::span<const std::uint32_t, kPaletteSize> values() const { return values_; }

 private:
  static constexpr std::size_t kSlots = 4096;
  static constexpr unsigned kShift = 32 - std::countr_zero(kSlots);
  static constexpr unsigned kNumberShift = 32;
  static constexpr std::uint64_t kUsed = std::uint64_t{1} << 40U;

  bool add(std::uint32_t bits, std::size_t slot, std::uint8_t& number) {
    if (count_ == kPaletteSize) return false;
    values_[count_] = bits;
    slots_[slot] = kUsed | (std::uint64_t{count_} << kNumberShift) | bits;
    number = static_cast<std::uint8_t>(count_++);
    return true;
  }

  std::array<std::uint64_t, kSlots> slots_{};  // used, number and value; 0 is free
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
    // A copy, which the writes below cannot alias.
    std::array<std::uint32_t, kPaletteSize> table;
    std::copy_n(&tables[at / plane % channels * kPaletteSize], kPaletteSize, table.begin());
    for (const std::size_t end = at + plane; at < end; ++at) values[at] = table[indices[at]];
  }
}

}  // namespace onggi::python
