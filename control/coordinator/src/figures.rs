// SPDX-License-Identifier: Apache-2.0
//! ANSWER: what the machine says of a command, its figures as JSON.

use fermata_job::{CommitFigures, Figures, RankView, Reply, StatusView};
use fermata_types::Answer;
use serde_json::{Value, json};

/// As a command reads it.
/// `hosts`: of the ranks of a status.
pub(crate) fn answer_of(reply: Reply, hosts: impl FnOnce(&[RankView]) -> Value) -> Answer {
    Answer {
        outcome: reply.outcome.number(),
        message: reply.message,
        snapshot: reply.snapshot,
        figures: figures(&reply.figures, hosts).to_string(),
    }
}

fn figures(figures: &Figures, hosts: impl FnOnce(&[RankView]) -> Value) -> Value {
    match figures {
        Figures::Refused { busy } => json!({ "busy": busy }),
        Figures::Failed { epoch, phase, attempts, milliseconds } => json!({
            "epoch": epoch, "phase": phase, "attempts": attempts, "milliseconds": milliseconds,
        }),
        Figures::Committed(figures) => committed(figures),
        Figures::Status(view) => status(view, &hosts(&view.ranks)),
    }
}

fn committed(figures: &CommitFigures) -> Value {
    json!({
        "epoch": figures.epoch,
        "ranks": figures.ranks,
        "bytes": figures.bytes,
        "bytes_max": figures.bytes_max,
        "pause_ns_max": figures.pause_ns_max,
        "safe_state_ms": figures.safe_state_ms,
        "milliseconds": figures.milliseconds,
        "messages_kept": figures.messages_kept,
        "attempts": figures.attempts,
    })
}

fn rank(view: &RankView) -> Value {
    json!({ "rank": view.rank, "pid": view.pid, "host": view.host, "state": view.state })
}

fn status(view: &StatusView, hosts: &Value) -> Value {
    json!({
        "job": view.job, "size": view.size, "ready": view.ready,
        "committed_epoch": view.committed_epoch, "stopped": view.stopped,
        "phase": view.phase, "refusal": view.refusal, "last": view.last,
        "ranks": view.ranks.iter().map(rank).collect::<Vec<_>>(), "hosts": hosts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fermata_job::Outcome;

    fn json_of(figures: Figures) -> String {
        let (message, snapshot) = ("text".to_owned(), String::new());
        let reply = Reply { outcome: Outcome::Refused, message, snapshot, figures };
        answer_of(reply, |ranks| json!([ranks.len()])).figures
    }

    #[test]
    fn figures_have_the_names_that_programs_read() {
        assert_eq!(json_of(Figures::Refused { busy: true }), r#"{"busy":true}"#);
        let failed = Figures::Failed { epoch: 3, phase: "parking", attempts: 2, milliseconds: 7 };
        assert_eq!(
            json_of(failed),
            r#"{"attempts":2,"epoch":3,"milliseconds":7,"phase":"parking"}"#
        );
        let committed = CommitFigures {
            epoch: 1,
            ranks: 2,
            bytes: 8192,
            bytes_max: 4096,
            pause_ns_max: 5,
            safe_state_ms: 6,
            milliseconds: 9,
            messages_kept: 4,
            attempts: 1,
        };
        assert_eq!(
            json_of(Figures::Committed(committed)),
            concat!(
                r#"{"attempts":1,"bytes":8192,"bytes_max":4096,"epoch":1,"messages_kept":4,"#,
                r#""milliseconds":9,"pause_ns_max":5,"ranks":2,"safe_state_ms":6}"#
            )
        );
    }

    #[test]
    fn a_status_names_what_is_not_known_yet_null() {
        let rank = RankView { rank: None, pid: 7, host: "h".into(), state: "starting" };
        let view = StatusView {
            job: "j".into(),
            size: None,
            ready: 0,
            committed_epoch: 0,
            stopped: false,
            phase: "none",
            refusal: None,
            last: String::new(),
            ranks: vec![rank],
        };
        assert_eq!(
            json_of(Figures::Status(view)),
            concat!(
                r#"{"committed_epoch":0,"hosts":[1],"job":"j","last":"","phase":"none","#,
                r#""ranks":[{"host":"h","pid":7,"rank":null,"state":"starting"}],"#,
                r#""ready":0,"refusal":null,"size":null,"stopped":false}"#
            )
        );
    }
}
