// SPDX-License-Identifier: Apache-2.0
//! What a host can have of a snapshot, as messages write it.

use fermata_levels::Item;

/// Kind and number.
pub(super) fn written(item: Item) -> (u32, u32) {
    match item {
        Item::Images => (0, 0),
        Item::Copy(home) => (1, home),
        Item::Parities(parities) => (2, parities),
    }
}

/// `None`: there is no such thing.
pub(super) fn read(kind: u32, number: u32) -> Option<Item> {
    match kind {
        0 => Some(Item::Images),
        1 => Some(Item::Copy(number)),
        2 => Some(Item::Parities(number)),
        _ => None,
    }
}
