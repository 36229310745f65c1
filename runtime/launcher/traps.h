// SPDX-License-Identifier: Apache-2.0
// The trap handler: who performs which trapped system call.
#pragma once

namespace fermata::launch {

/// Installs the handler and the filter of boundary/filter.h. From here on the windows are watched.
/// The filter may be there already, inherited. Ends the process if the kernel refuses one of them.
void install_boundary(bool with_filter);

}  // namespace fermata::launch
