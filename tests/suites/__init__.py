# SPDX-License-Identifier: Apache-2.0
"""The test suites; tests/run finds every test_ function in the modules of this folder."""
