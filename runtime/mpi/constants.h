// SPDX-License-Identifier: Apache-2.0
// Canonical constants, by the names this code uses: the values of the MPI-5 standard ABI. A front
// end has translated the application's own values before it calls core.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

inline constexpr i32 kAnySource = -1, kAnyTag = -2, kProcNull = -3, kRoot = -4;
inline constexpr i32 kUndefined = -32766;

inline constexpr u32 kCommNull = 0x100, kCommWorld = 0x101, kCommSelf = 0x102;
inline constexpr u32 kGroupNull = 0x108, kGroupEmpty = 0x109;
inline constexpr u32 kWinNull = 0x110, kFileNull = 0x118, kSessionNull = 0x120;
inline constexpr u32 kMessageNull = 0x128, kMessageNoProc = 0x129;
inline constexpr u32 kInfoNull = 0x130, kInfoEnv = 0x131;
inline constexpr u32 kErrhandlerNull = 0x140, kErrorsAreFatal = 0x141, kErrorsAbort = 0x142,
                     kErrorsReturn = 0x143;
inline constexpr u32 kRequestNull = 0x180, kDatatypeNull = 0x200, kOpNull = 0x020;
inline constexpr u32 kByte = 0x247, kPacked = 0x207, kInt = 0x209;

inline constexpr i32 kSuccess = 0, kErrBuffer = 1, kErrCount = 2, kErrType = 3, kErrTag = 4,
                     kErrComm = 5, kErrRank = 6, kErrRequest = 7, kErrRoot = 8, kErrGroup = 9,
                     kErrOp = 10, kErrTopology = 11, kErrDims = 12, kErrArg = 13, kErrUnknown = 14,
                     kErrTruncate = 15, kErrOther = 16, kErrIntern = 17, kErrPending = 18,
                     kErrInStatus = 19, kErrInfo = 34, kErrInfoKey = 31, kErrInfoNoKey = 32,
                     kErrInfoValue = 33, kErrKeyval = 36, kErrLocktype = 37, kErrNoMem = 39,
                     kErrRmaAttach = 46, kErrRmaShared = 49, kErrRmaSync = 50, kErrSize = 52,
                     kErrWin = 56, kErrRmaFlavor = 57, kErrFile = 30,
                     kErrSpawn = 53, kErrUnsupportedOperation = 55, kErrErrhandler = 61,
                     kErrLastCode = 0x3fff;

inline constexpr i32 kThreadSingle = 0, kThreadFunneled = 1024, kThreadSerialized = 2048,
                     kThreadMultiple = 4096;

inline constexpr i32 kCombinerNamed = 101, kCombinerDup = 102, kCombinerContiguous = 103,
                     kCombinerVector = 104, kCombinerHvector = 105, kCombinerIndexed = 106,
                     kCombinerHindexed = 107, kCombinerIndexedBlock = 108,
                     kCombinerHindexedBlock = 109, kCombinerStruct = 110, kCombinerSubarray = 111,
                     kCombinerDarray = 112, kCombinerF90Real = 113, kCombinerF90Complex = 114,
                     kCombinerF90Integer = 115, kCombinerResized = 116;

inline constexpr i32 kIdent = 201, kCongruent = 202, kSimilar = 203, kUnequal = 204;
inline constexpr i32 kTopoCart = 211, kTopoGraph = 212, kTopoDistGraph = 213;
inline constexpr i32 kCommTypeShared = 221;

inline constexpr i32 kWinCreate = 311, kWinAllocate = 312, kWinDynamic = 313, kWinShared = 314,
                     kWinUnified = 321;
inline constexpr i32 kWinBase = 601, kWinDispUnit = 602, kWinSize = 603, kWinCreateFlavor = 604,
                     kWinModel = 605;
inline constexpr i32 kLockExclusive = 301, kLockShared = 302;

inline constexpr i32 kKeyvalInvalid = 0, kTagUb = 501, kIo = 502, kHost = 503,
                     kWtimeIsGlobal = 504, kAppnum = 505, kLastUsedCode = 506, kUniverseSize = 507;

inline constexpr i32 kMaxObjectName = 128, kMaxInfoKey = 256, kMaxInfoVal = 1024,
                     kMaxErrorString = 512, kMaxDatarep = 128;

// The largest tag every supported MPI has on every network (the smallest bound known, libfabric
// over TCP). Announced instead of the lower half's own, because a restart may bring a smaller one.
inline constexpr i32 kTagUbPromised = 524287;

// Addresses with a meaning of their own.
inline void* const kInPlace = reinterpret_cast<void*>(1);
inline int* const kUnweighted = reinterpret_cast<int*>(10);
inline int* const kWeightsEmpty = reinterpret_cast<int*>(11);

}  // namespace fermata::mpi
