// SPDX-License-Identifier: Apache-2.0
// The parts of the MPI core that are pure: they touch the arena and the slots, and neither a lower
// half nor a launcher.
#include "mpi/objects/groups.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/safepoint/rebuild.h"
#include "unit/front.h"

static void test_arena() {
  const u64 before = arena().live_blocks;
  u8* const a = arena_array<u8>(1000);
  u8* const b = arena_array<u8>(1000);
  EXPECT(reinterpret_cast<u64>(a) % 16 == 0 && b >= a + 1000);
  arena_free(a);
  EXPECT(arena_array<u8>(900) == a);  // same class: the freed block comes back first
  u8* const big = arena_array<u8>(5 << 20);
  big[0] = big[(5 << 20) - 1] = 7;
  arena_free(big);
  EXPECT(arena_array<u8>(5 << 20) == big && big[0] == 7 && big[(5 << 20) - 1] == 0);
  arena_free(big), arena_free(a), arena_free(b);
  EXPECT(arena().live_blocks == before);
}

static void test_groups() {
  state().world.rank = 2;
  const i32 everyone[] = {0, 1, 2, 3, 4, 5};
  GroupSlot* const all = group_new(everyone, 6);
  GroupSlot *even = nullptr, *odd = nullptr, *both = nullptr, *none = nullptr;
  int ranges[1][3] = {{4, 0, -2}};
  EXPECT(core::Group_range_incl(all, 1, ranges, &even) == kSuccess);
  EXPECT(core::Group_difference(all, even, &odd) == kSuccess);
  EXPECT(group_of(even)->size == 3 && group_of(even)->ranks[0] == 4 && group_of(even)->rank == 1);
  EXPECT(group_of(odd)->rank == kUndefined);
  EXPECT(core::Group_intersection(even, odd, &none) == kSuccess && none->index == kGroupEmpty);
  EXPECT(core::Group_union(even, odd, &both) == kSuccess);
  int result = 0;
  EXPECT(core::Group_compare(all, both, &result) == kSuccess && result == kSimilar);
  EXPECT(core::Group_compare(all, even, &result) == kSuccess && result == kUnequal);
  const int asked[] = {0, kProcNull, 1};
  int answer[3];
  EXPECT(core::Group_translate_ranks(odd, 3, asked, even, answer) == kSuccess);
  EXPECT(answer[0] == kUndefined && answer[1] == kProcNull && answer[2] == kUndefined);
  EXPECT(core::Group_incl(all, 1, (const int[]){6}, &none) == kErrRank);
  EXPECT(core::Group_free(&both) == kSuccess && both->index == kGroupNull);
}

static DatatypeSlot* derived(i32 combiner, u64 size, DatatypeSlot* child, i32 blocks) {
  Type* const type = arena_new<Type>();
  type->refs = 1;
  type->combiner = combiner;
  type->types = arena_copy(&child, 1);
  type->types_count = 1;
  type->ints = arena_copy(&blocks, 1);
  DatatypeSlot* const slot = slot_new<kDatatype>(type);
  slot->type_size = size;
  return slot;
}

static void test_counts() {
  DatatypeSlot* const integer = front::predefined<kDatatype>(kInt);
  integer->type_size = 4;
  DatatypeSlot* const pair = front::predefined<kDatatype>(0x229);  // MPI_DOUBLE_INT
  pair->type_size = 12;
  DatatypeSlot* const three = derived(kCombinerContiguous, 12, integer, 3);
  CanonStatus status{};
  int n = 0;
  status.set_bytes(44);
  EXPECT(core::Get_count(&status, three, &n) == kSuccess && n == kUndefined);
  EXPECT(core::Get_elements(&status, three, &n) == kSuccess && n == 11);
  status.set_bytes(46);
  EXPECT(core::Get_elements(&status, three, &n) == kSuccess && n == kUndefined);
  status.set_bytes(20);  // one pair and the first element of the next
  EXPECT(core::Get_elements(&status, pair, &n) == kSuccess && n == 3);
  i64 huge = 0;
  status.set_bytes(u64(3) << 33);
  EXPECT(core::Get_elements_x(&status, three, &huge) == kSuccess && huge == (i64(3) << 31));
  EXPECT(core::Get_count(&status, integer, &n) == kSuccess && n == kUndefined);
}

static void test_early_order() {
  Comm comm{};
  UnexpectedMessage messages[3]{};
  const i32 sources[] = {1, 2, 1}, tags[] = {5, 6, 6};
  for (int i = 0; i < 3; i++) {
    messages[i].comm = &comm;
    messages[i].source = sources[i];
    messages[i].tag = tags[i];
    unexpected_append(&messages[i]);
  }
  EXPECT(unexpected_match(&comm, kAnySource, kAnyTag) == &messages[0]);
  EXPECT(unexpected_match(&comm, 1, 6) == &messages[2]);
  EXPECT(unexpected_match(&comm, kAnySource, 6) == &messages[1]);
  EXPECT(unexpected_match(&comm, 2, 5) == nullptr);
  unexpected_unlink(&messages[1]);
  EXPECT(unexpected_match(&comm, kAnySource, 6) == &messages[2]);
  unexpected_unlink(&messages[0]), unexpected_unlink(&messages[2]);
  EXPECT(!comm.unexpected_first && !comm.unexpected_last);
}

static void test_repost_order() {
  constexpr u32 kCount = 101;
  RequestSlot* posted[kCount];
  for (u32 i = 0; i < kCount; i++) {
    posted[i] = request_slot_new();
    request_of(posted[i])->order = (i * 37) % kCount;
  }
  sort_by_order(posted, kCount);
  for (u32 i = 0; i < kCount; i++) EXPECT(request_of(posted[i])->order == i);
  for (u32 i = 0; i < kCount; i++) request_slot_free(posted[i]);
  EXPECT(request_slot_new() == posted[kCount - 1]);
}

static void test_infos() {
  InfoSlot* info = nullptr;
  EXPECT(core::Info_create(&info) == kSuccess);
  EXPECT(core::Info_set(info, "first", "1") == kSuccess);
  EXPECT(core::Info_set(info, "second", "two") == kSuccess);
  EXPECT(core::Info_set(info, "first", "one") == kSuccess);
  int count = 0, flag = 0, room = 3;
  char text[kMaxInfoVal];
  EXPECT(core::Info_get_nkeys(info, &count) == kSuccess && count == 2);
  EXPECT(core::Info_get_nthkey(info, 1, text) == kSuccess && text_equal(text, "second"));
  EXPECT(core::Info_get_string(info, "first", &room, text, &flag) == kSuccess);
  EXPECT(flag && room == 4 && text_equal(text, "on"));  // truncated, and told how long it is
  EXPECT(core::Info_delete(info, "third") == kErrInfoNokey);
  EXPECT(core::Info_free(&info) == kSuccess && info->index == kInfoNull);
}

int main() {
  map_slots();
  test_arena();
  test_groups();
  test_counts();
  test_early_order();
  test_repost_order();
  test_infos();
  puts("PASS");
}
