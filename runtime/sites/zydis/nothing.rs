// SPDX-License-Identifier: Apache-2.0
//! A package needs a target; this one is there for its dependency alone.
