// SPDX-License-Identifier: Apache-2.0
// Every number of the kernel's, once, but for the lists of options in files/options.cpp. What is
// called as the kernel calls it, in our spelling, has no comment; behind the others stands the
// kernel's name. `./x lint` compares all with the headers of the system, as far as those have them.
//
// The kernel's own headers are not used for these: they collide with a libc's in programs that have
// both, and older ones lack what newer kernels know. Source: Linux x86-64, include/uapi.
#pragma once

#include "base/types.h"

namespace fermata::sys {

// errno(3)
inline constexpr i32
    kEperm = 1,
    kEnoent = 2,
    kEintr = 4,
    kEio = 5,
    kEnxio = 6,
    kEnoexec = 8,
    kEagain = 11,
    kEnomem = 12,
    kEacces = 13,
    kEfault = 14,
    kEbusy = 16,
    kEexist = 17,
    kEinval = 22,
    kEmfile = 24,
    kEfbig = 27,
    kEnospc = 28,
    kErofs = 30,
    kEpipe = 32,
    kEnosys = 38,
    kEloop = 40,
    kEnotsock = 88,
    kEnoprotoopt = 92,
    kEnobufs = 105,
    kEtimedout = 110,
    kEinprogress = 115;

// system calls that are newer than the oldest headers
inline constexpr u16
    kSysLandlockRestrictSelf = 446,
    kSysFutexWaitv = 449,
    kSysMseal = 462;

// mmap(2), mremap(2)
inline constexpr int
    kProtRead = 1,
    kProtWrite = 2,
    kProtExec = 4,
    kMapShared = 1,
    kMapPrivate = 2,
    kMapDroppable = 8,
    kMapFixed = 0x10,
    kMapAnonymous = 0x20,
    kMap32Bit = 0x40,
    kMapGrowsDown = 0x100,
    kMapDenyWrite = 0x800,
    kMapNoReserve = 0x4000,
    kMapStack = 0x20000,
    kMapHugeTlb = 0x40000,
    kMapFixedNoReplace = 0x100000,
    kMremapMayMove = 1,
    kMremapFixed = 2,
    kMremapDontUnmap = 4;

// madvise(2)
inline constexpr int
    kMadvRandom = 1,
    kMadvSequential = 2,
    kMadvRemove = 9,
    kMadvDontFork = 10,
    kMadvDoFork = 11,
    kMadvMergeable = 12,
    kMadvHugePage = 14,
    kMadvNoHugePage = 15,
    kMadvDontDump = 16,
    kMadvWipeOnFork = 18,
    kMadvKeepOnFork = 19,
    kMadvGuardInstall = 102;

// mlock2(2), mlockall(2), fallocate(2), memfd_create(2)
inline constexpr int
    kMlockOnFault = 1,
    kMclCurrent = 1,
    kMclFuture = 2,
    kMclOnFault = 4,
    kFallocFlKeepSize = 1,
    kFallocFlPunchHole = 2,
    kMfdCloexec = 1,
    kMfdAllowSealing = 2;

// set_mempolicy(2), membarrier(2)
inline constexpr int
    kMpolFAddr = 2,
    kMembarrierCmdRegisterGlobalExpedited = 1 << 2,
    kMembarrierCmdPrivateExpedited = 1 << 3,
    kMembarrierCmdPrivateExpeditedSyncCore = 1 << 5,
    kMembarrierCmdPrivateExpeditedRseq = 1 << 7,
    kMembarrierCmdGetRegistrations = 1 << 9;

// System V: shmget(2), shmctl(2)
inline constexpr int
    kIpcPrivate = 0,
    kIpcRmid = 0,
    kIpcStat = 2,
    kIpcCreat = 01000,
    kIpcExcl = 02000,
    kShmLock = 11,
    kShmUnlock = 12,
    kShmInfo = 14,
    kShmDest = 01000,
    kShmRdonly = 010000;

// pagemap, and its PAGEMAP_SCAN
inline constexpr u64
    kPmFile = u64(1) << 61,
    kPmSwap = u64(1) << 62,
    kPmPresent = u64(1) << 63,
    kPagemapScan = 0xc0606610,
    kPageIsGuard = 1 << 8;

// userfaultfd(2)
inline constexpr u64
    kUffdUserModeOnly = 1,
    kUffdApi = 0xaa,
    kUffdFeatureMissingHugetlbfs = 1 << 4,
    kUffdFeatureSigbus = 1 << 7,
    kUffdioApi = 0xc018aa3f,
    kUffdioRegister = 0xc020aa00,
    kUffdioRegisterModeMissing = 1;

// open(2), access(2), lseek(2)
inline constexpr int
    kAtCwd = -100,  // AT_FDCWD
    kReadOnly = 0,  // O_RDONLY
    kWriteOnly = 1,  // O_WRONLY
    kReadWrite = 2,  // O_RDWR
    kAccessMode = 3,  // O_ACCMODE
    kCreate = 0100,  // O_CREAT
    kExcl = 0200,  // O_EXCL
    kNoControllingTty = 0400,  // O_NOCTTY
    kTruncate = 01000,  // O_TRUNC
    kAppend = 02000,  // O_APPEND
    kNonBlock = 04000,  // O_NONBLOCK
    kAsync = 020000,  // O_ASYNC
    kDirect = 040000,  // O_DIRECT
    kDirectory = 0200000,  // O_DIRECTORY
    kNoFollow = 0400000,  // O_NOFOLLOW
    kNoAccessTime = 01000000,  // O_NOATIME
    kCloseOnExec = 02000000,  // O_CLOEXEC
    kPathOnly = 010000000,  // O_PATH
    kTemporary = 020000000,  // of O_TMPFILE, which is a directory as well
    kXOk = 1,
    kWOk = 2,
    kROk = 4,
    kAtEaccess = 0x200,
    kSeekCur = 1,
    kSeekData = 3,
    kSeekHole = 4;

// fcntl(2), flock(2), ioctl(2)
inline constexpr int
    kDupFd = 0,  // F_DUPFD
    kGetFdFlags = 1,  // F_GETFD
    kSetFdFlags = 2,  // F_SETFD
    kGetFlags = 3,  // F_GETFL
    kSetFlags = 4,  // F_SETFL
    kGetLock = 5,  // F_GETLK
    kSetLock = 6,  // F_SETLK
    kSetOwner = 8,  // F_SETOWN
    kGetOwner = 9,  // F_GETOWN
    kSetSignal = 10,  // F_SETSIG
    kGetSignal = 11,  // F_GETSIG
    kSetOwnerEx = 15,  // F_SETOWN_EX
    kGetOwnerEx = 16,  // F_GETOWN_EX
    kGetDescriptionLock = 36,  // F_OFD_GETLK
    kSetDescriptionLock = 37,  // F_OFD_SETLK
    kDupFdCloexec = 1030,  // F_DUPFD_CLOEXEC
    kSetPipeSize = 1031,  // F_SETPIPE_SZ
    kGetPipeSize = 1032,  // F_GETPIPE_SZ
    kAddSeals = 1033,  // F_ADD_SEALS
    kGetSeals = 1034,  // F_GET_SEALS
    kFdCloexec = 1,
    kFRdlck = 0,
    kFWrlck = 1,
    kFUnlck = 2,
    kFOwnerTid = 0,
    kFOwnerPgrp = 2,
    kLockSh = 1,
    kLockEx = 2,
    kLockNb = 4,
    kFionread = 0x541b;

// ioctl(2) of files, statfs(2)
inline constexpr u64
    kFsIocSetFlags = 0x40086602,
    kFsIocGetFlags = 0x80086601,
    kTfdIocSetTicks = 0x40085400,
    kTmpfsMagic = 0x01021994,
    kRamfsMagic = 0x858458f6,
    kHugetlbfsMagic = 0x958458f6,
    kExt4SuperMagic = 0xef53,
    kXfsSuperMagic = 0x58465342,
    kBtrfsSuperMagic = 0x9123683e,
    kF2fsSuperMagic = 0xf2f52010,
    kMqueueMagic = 0x19800202;

// stat(2)
inline constexpr u32
    kTypeMask = 0170000,  // S_IFMT
    kTypeFifo = 0010000,  // S_IFIFO
    kTypeCharDevice = 0020000,  // S_IFCHR
    kTypeDirectory = 0040000,  // S_IFDIR
    kTypeBlockDevice = 0060000,  // S_IFBLK
    kTypeRegular = 0100000,  // S_IFREG
    kTypeSocket = 0140000;  // S_IFSOCK

// xattr(7)
inline constexpr u64
    kXattrSizeMax = 1 << 16;

// poll(2), epoll_ctl(2), inotify(7), splice(2), close_range(2)
inline constexpr int
    kPollIn = 1,
    kPollOut = 4,
    kPollErr = 8,
    kPollHup = 0x10,
    kPollRdHup = 0x2000,
    kEpollCtlAdd = 1,
    kInExclUnlink = 0x04000000,
    kInMaskAdd = 0x20000000,
    kSpliceFNonBlock = 2,
    kCloseRangeCloexec = 4;

// inotify(7)
inline constexpr u32
    kInOneShot = 0x80000000;

// socket(2), getsockopt(2), recv(2), shutdown(2)
inline constexpr int
    kAfUnix = 1,
    kAfInet = 2,
    kAfInet6 = 10,
    kAfNetlink = 16,
    kSockStream = 1,
    kSockDgram = 2,
    kSolSocket = 1,
    kIpProtoIp = 0,
    kIpProtoTcp = 6,
    kIpProtoUdp = 17,
    kIpProtoIpv6 = 41,
    kSoType = 3,
    kSoSndBuf = 7,
    kSoRcvBuf = 8,
    kSoPriority = 12,
    kSoPeerCred = 17,
    kSoRcvTimeo = 20,
    kSoSndTimeo = 21,
    kSoAttachFilter = 26,
    kSoAcceptConn = 30,
    kSoSndBufForce = 32,
    kSoRcvBufForce = 33,
    kSoProtocol = 38,
    kSoDomain = 39,
    kSoPeekOff = 42,
    kSoBusyPoll = 46,
    kSoIncomingCpu = 49,
    kSoAttachReuseportCbpf = 51,
    kSoAttachReuseportEbpf = 52,
    kSoPreferBusyPoll = 69,
    kSoBufLock = 72,
    kSoReserveMem = 73,
    kIpXfrmPolicy = 17,
    kIpAddMembership = 35,
    kIpAddSourceMembership = 39,
    kMcastJoinGroup = 42,
    kMcastJoinSourceGroup = 46,
    kIpv6AddMembership = 20,
    kIpv6JoinAnycast = 27,
    kIpv6XfrmPolicy = 35,
    kIpv6PktInfo = 50,
    kTcpCongestion = 13,
    kTcpMd5Sig = 14,
    kTcpUlp = 31,
    kTcpAoAddKey = 38,
    kMsgPeek = 2,
    kMsgCtrunc = 8,
    kMsgTrunc = 0x20,
    kMsgDontWait = 0x40,
    kMsgWaitAll = 0x100,
    kMsgNoSignal = 0x4000,
    kShutRd = 0,
    kShutWr = 1;

// clone(2), wait4(2), waitid(2), kcmp(2)
inline constexpr int
    kCloneVm = 0x100,
    kCloneFs = 0x200,
    kCloneFiles = 0x400,
    kCloneSighand = 0x800,
    kCloneThread = 0x10000,
    kCloneSysvSem = 0x40000,
    kCloneSetTls = 0x80000,
    kCloneParentSetTid = 0x100000,
    kCloneChildClearTid = 0x200000,
    kCloneChildSetTid = 0x1000000,
    kWNoHang = 1,
    kWExited = 4,
    kWNoWait = 0x01000000,
    kWAll = 0x40000000,
    kPPid = 1,
    kPPgid = 2,
    kKcmpFile = 0,
    kKcmpVm = 1,
    kKcmpEpollTfd = 7;

// prctl(2), arch_prctl(2), personality(2), keyctl(2), capabilities(7)
inline constexpr int
    kPrSetPdeathsig = 1,
    kPrGetPdeathsig = 2,
    kPrGetDumpable = 3,
    kPrSetDumpable = 4,
    kPrSetName = 15,
    kPrSetSeccomp = 22,
    kPrGetTsc = 25,
    kPrGetSecureBits = 27,
    kPrSetTimerSlack = 29,
    kPrGetTimerSlack = 30,
    kPrMceKillGet = 34,
    kPrSetMm = 35,
    kPrSetMmMap = 14,
    kPrSetChildSubreaper = 36,
    kPrGetChildSubreaper = 37,
    kPrSetThpDisable = 41,
    kPrGetThpDisable = 42,
    kPrGetSpeculationCtrl = 52,
    kPrGetIoFlusher = 58,
    kPrSetSyscallUserDispatch = 59,
    kPrSchedCore = 62,
    kPrGetMdwe = 66,
    kPrSetMemoryMerge = 67,
    kPrGetMemoryMerge = 68,
    kPrTimerCreateRestoreIds = 77,
    kArchSetGs = 0x1001,
    kArchSetFs = 0x1002,
    kArchGetFs = 0x1003,
    kArchGetCpuid = 0x1011,
    kAddrCompatLayout = 0x0200000,
    kKeyctlJoinSessionKeyring = 1,
    kLinuxCapabilityVersion3 = 0x20080522,
    kCapIpcLock = 14;

// setrlimit(2), getpriority(2), ioprio_get(2), sched_setattr(2)
inline constexpr int
    kRlimitFsize = 1,
    kRlimitData = 2,
    kRlimitStack = 3,
    kRlimitNofile = 7,
    kRlimitMemlock = 8,
    kRlimitAs = 9,
    kPrioProcess = 0,
    kPrioPgrp = 1,
    kIoPrioWhoProcess = 1,
    kIoPrioWhoPgrp = 2,
    kSchedFlagResetOnFork = 1,
    kSchedDeadline = 6;

// signal(7), sigaltstack(2), siginfo_t
inline constexpr int
    kSigHup = 1,
    kSigInt = 2,
    kSigQuit = 3,
    kSigKill = 9,
    kSigUsr1 = 10,
    kSigUsr2 = 12,
    kSigAlrm = 14,
    kSigTerm = 15,
    kSigChld = 17,
    kSigStop = 19,
    kSigXcpu = 24,
    kSigPwr = 30,
    kSigBlock = 0,  // SIG_BLOCK
    kSigUnblock = 1,  // SIG_UNBLOCK
    kSigSetMask = 2,  // SIG_SETMASK
    kSigDfl = 0,
    kSigIgn = 1,
    kSsDisable = 2,
    kSiMaxSize = 128,
    kSiUser = 0,
    kSiQueue = -1,
    kSiTimer = -2,
    kSiMesgq = -3,
    kSiTkill = -6,
    kSiSysSeccomp = 1;  // SYS_SECCOMP

// sigaction(2)
inline constexpr u64
    kSaSigInfo = 4,
    kSaRestorer = 0x04000000,
    kSaOnStack = 0x08000000,
    kSaRestart = 0x10000000,
    kSaNoDefer = 0x40000000;

// clock_gettime(2), timer_create(2), futex(2), getauxval(3)
inline constexpr int
    kClockRealtime = 0,
    kClockMonotonic = 1,
    kClockMonotonicRaw = 4,
    kClockMonotonicCoarse = 6,
    kClockBoottime = 7,
    kClockBoottimeAlarm = 9,
    kTimerAbstime = 1,
    kSigevSignal = 0,
    kSigevNone = 1,
    kSigevThreadId = 4,
    kFutexLockPi2 = 13,
    kAtRseqFeatureSize = 27,
    kAtRseqAlign = 28;

}  // namespace fermata::sys
