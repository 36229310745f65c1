// SPDX-License-Identifier: Apache-2.0
//! The one way to the user's terminal from here.

use std::fmt::Display;

/// Tells what has been changed, or is not as it should be, while the work continues.
pub(crate) fn report(text: impl Display) {
    fermata_sysio::print_error(text);
}
