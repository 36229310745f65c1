// SPDX-License-Identifier: Apache-2.0
//! Limits of a process that jobs cannot be run under.

use crate::units::human_bytes;

/// What a rank reserves without using it, mostly places for handles (runtime/halves/layout.h), and
/// what a small program and both its MPIs need beside that.
const ADDRESS_SPACE_NEEDED: u64 = 48 << 30;

/// Why ranks cannot be started under the limit of address space, if they cannot.
pub fn address_space_refusal() -> Option<String> {
    let limit = fermata_sysio::address_space_limit()?;
    (limit < ADDRESS_SPACE_NEEDED).then(|| {
        format!(
            "address space is limited to {} (ulimit -v), and a rank reserves {}, of which it uses \
             little\n  hint: ulimit -v unlimited; in a batch system limit memory and not address \
             space (Slurm: VSizeFactor=0, SGE: no h_vmem)",
            human_bytes(limit),
            human_bytes(ADDRESS_SPACE_NEEDED)
        )
    })
}
