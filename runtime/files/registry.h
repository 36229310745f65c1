// SPDX-License-Identifier: Apache-2.0
// What no /proc file tells and the boundary therefore notes as it happens: which socket is whose
// peer, and under which name a watched file was given to inotify. Entries of objects that are gone
// stay until they are overwritten; inode numbers of sockets do not come again soon.
#pragma once

#include "base/types.h"

namespace fermata::files {

/// The two descriptors are a fresh socketpair.
void note_pair(int a, int b);
/// The inode number of a socket's peer; 0 if it is not one of a noted pair.
u64 peer_of(u64 inode);

/// A checkpoint has found an empty message in the socket's queue, or that the queue is empty. The
/// image writer's word reaches the next one.
void note_empty_message(u64 inode, bool found);
bool has_empty_message(u64 inode);

/// inotify_add_watch(fd, path) has returned `number`.
void note_watch(int fd, u64 number, const char* path);
/// The path of the watched file that fdinfo calls (inode, device); null if it was never noted.
const char* watched_path(u64 inode, u64 device);

/// An option of SOL_SOCKET that no kernel knows, with which a program says that it connects a TCP
/// socket again itself (fermata_reconnects in interface/fermata.h).
inline constexpr u32 kReconnectsOption = 0x4645524d;
void note_reconnects(u64 inode);
bool reconnects(u64 inode);

/// The socket of this inode has an option that getsockopt(2) does not tell of. Text: what it has.
void note_untold(u64 inode, const char* what);
const char* untold_of(u64 inode);  // null: none

}  // namespace fermata::files
