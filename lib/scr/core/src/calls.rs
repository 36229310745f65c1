// SPDX-License-Identifier: Apache-2.0
//! Which call may follow which. A program that calls in another order gets an error and no harm.

/// Where a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Before `SCR_Init`.
    #[default]
    Before,
    /// Between outputs.
    Idle,
    /// Between `SCR_Start_output` and `SCR_Complete_output`.
    Output,
    /// Between `SCR_Start_restart` and `SCR_Complete_restart`.
    Restart,
    /// After `SCR_Finalize`.
    Over,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are SCR's
pub enum Call {
    Init,
    Finalize,
    Configure,
    RouteFile,
    HaveRestart,
    StartRestart,
    CompleteRestart,
    NeedCheckpoint,
    StartOutput,
    CompleteOutput,
    ShouldExit,
    Current,
    Drop,
    Delete,
}

impl Call {
    /// Its name in C.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "SCR_Init",
            Self::Finalize => "SCR_Finalize",
            Self::Configure => "SCR_Config",
            Self::RouteFile => "SCR_Route_file",
            Self::HaveRestart => "SCR_Have_restart",
            Self::StartRestart => "SCR_Start_restart",
            Self::CompleteRestart => "SCR_Complete_restart",
            Self::NeedCheckpoint => "SCR_Need_checkpoint",
            Self::StartOutput => "SCR_Start_output",
            Self::CompleteOutput => "SCR_Complete_output",
            Self::ShouldExit => "SCR_Should_exit",
            Self::Current => "SCR_Current",
            Self::Drop => "SCR_Drop",
            Self::Delete => "SCR_Delete",
        }
    }
}

/// A call in the wrong phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", .call.name())]
pub struct OrderError {
    call: Call,
    why: &'static str,
}

impl Phase {
    /// Whether the call may be made.
    ///
    /// # Errors
    /// It may not.
    pub fn allow(self, call: Call) -> Result<(), OrderError> {
        let why = match (self, call) {
            (Self::Before, Call::Init | Call::Configure)
            | (Self::Idle | Self::Output | Self::Restart, Call::RouteFile)
            | (Self::Output, Call::CompleteOutput)
            | (Self::Restart, Call::CompleteRestart) => return Ok(()),
            (Self::Before, _) => "SCR_Init has not been called",
            (Self::Over, _) => "SCR_Finalize has been called",
            (_, Call::Init) => "it has been called before",
            (_, Call::Configure) => "values are set before SCR_Init",
            (_, Call::CompleteOutput) => "no output has been started",
            (_, Call::CompleteRestart) => "no restart has been started",
            (Self::Idle, _) => return Ok(()),
            (Self::Output, _) => "an output has been started and is not complete",
            (Self::Restart, _) => "a restart has been started and is not complete",
        };
        Err(OrderError { call, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_order_is_allowed() {
        let order = [
            (Phase::Before, Call::Configure),
            (Phase::Before, Call::Init),
            (Phase::Idle, Call::HaveRestart),
            (Phase::Idle, Call::StartRestart),
            (Phase::Restart, Call::RouteFile),
            (Phase::Restart, Call::CompleteRestart),
            (Phase::Idle, Call::NeedCheckpoint),
            (Phase::Idle, Call::StartOutput),
            (Phase::Output, Call::RouteFile),
            (Phase::Output, Call::CompleteOutput),
            (Phase::Idle, Call::ShouldExit),
            (Phase::Idle, Call::RouteFile),
            (Phase::Idle, Call::Finalize),
        ];
        assert!(order.iter().all(|(phase, call)| phase.allow(*call).is_ok()));
    }

    #[test]
    fn another_one_says_what_is_wrong() {
        let why = |phase: Phase, call| phase.allow(call).unwrap_err().to_string();
        assert_eq!(
            why(Phase::Before, Call::StartOutput),
            "SCR_Start_output: SCR_Init has not been called"
        );
        assert_eq!(
            why(Phase::Output, Call::StartOutput),
            "SCR_Start_output: an output has been started and is not complete"
        );
        assert_eq!(
            why(Phase::Idle, Call::CompleteOutput),
            "SCR_Complete_output: no output has been started"
        );
        assert_eq!(why(Phase::Idle, Call::Init), "SCR_Init: it has been called before");
        assert_eq!(why(Phase::Over, Call::Init), "SCR_Init: SCR_Finalize has been called");
        assert_eq!(why(Phase::Idle, Call::Configure), "SCR_Config: values are set before SCR_Init");
        assert!(Phase::Restart.allow(Call::Finalize).is_err());
    }
}
