#include "base/uuid.h"

#include <set>

#include <gtest/gtest.h>

namespace onggi {
namespace {

TEST(UuidTest, ParsesBothFormsAndPrintsLowerCase) {
  const auto dashed = Uuid::parse("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6");
  ASSERT_TRUE(dashed);
  EXPECT_EQ(dashed->to_string(), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
  EXPECT_EQ(dashed->hex(), "f81d4fae7dec11d0a76500a0c91e6bf6");
  EXPECT_EQ(Uuid::parse(dashed->hex()).value(), *dashed);
}

TEST(UuidTest, RefusesAnythingElse) {
  for (const std::string_view bad :
       {"", "f81d4fae", "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
        "f81d4fae7-dec-11d0-a765-00a0c91e6bf6", "g81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"}) {
    EXPECT_FALSE(Uuid::parse(bad)) << bad;
  }
}

TEST(UuidTest, RandomOnesAreVersionFourAndDiffer) {
  std::set<Uuid> seen;
  for (int i = 0; i < 1000; ++i) {
    const Uuid id = Uuid::random();
    EXPECT_EQ(id.bytes()[6] >> 4, 4);
    EXPECT_EQ(id.bytes()[8] >> 6, 2);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

}  // namespace
}  // namespace onggi
