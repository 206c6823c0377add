#include "base/checksum.h"

#include <string>

#include <gtest/gtest.h>

#include "base/encoding.h"

namespace onggi {
namespace {

TEST(ChecksumTest, Xxh3AgreesWithItsSpecification) {
  EXPECT_EQ(xxh3({}), 0x2d06800538d394c2U);  // XXH3_64bits of nothing, seed 0
  EXPECT_EQ(xxh3(as_bytes("a")), 0xe6c632b61e964e1fU);
}

TEST(ChecksumTest, PiecesGiveTheSameAsTheWhole) {
  std::string text(100'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  Xxh3 pieces;
  for (std::size_t at = 0, step = 1; at < text.size(); at += step, step = step * 2 + 1) {
    pieces.update(as_bytes(std::string_view(text).substr(at, step)));
  }
  EXPECT_EQ(pieces.digest(), xxh3(as_bytes(text)));
}

TEST(ChecksumTest, ShaVectorsOfFips180) {
  EXPECT_EQ(hex_encode(as_bytes(sha256("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_encode(as_bytes(sha1(as_bytes("abc")))),
            "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(ChecksumTest, Sha1OverPiecesIsSha1OfTheWhole) {
  Sha1 hash;
  hash.update(as_bytes("ab"));
  hash.update(as_bytes(""));
  hash.update(as_bytes("c"));
  EXPECT_EQ(hash.finish(), sha1(as_bytes("abc")));
}

}  // namespace
}  // namespace onggi
