# SPDX-License-Identifier: Apache-2.0
"""What the suites share: processes with deadlines, the installed MPIs, the commands."""
