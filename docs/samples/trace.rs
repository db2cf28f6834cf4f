//! A Rust program that prints trace lines: `tell` is all that an implementation needs of it.
//!
//!     rustc trace.rs && ./trace | dethrone doctor --lines -

use std::io::{self, Write};

/// Prints one line; `more` holds its other fields as JSON. The lock keeps lines in the order of what they tell.
fn tell(event: &str, more: &str) {
    let line = format!("{{\"dethrone\":1,\"event\":\"{event}\",{more}}}\n");
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the trace cannot be written");
}

fn main() {
    tell("recovered", r#""term":0,"voted_for":null,"file":"absent""#);
    tell("term_changed", r#""term":1"#); // stored, and before acting in it
    tell("vote_granted", r#""term":1,"candidate":"n1""#); // stored, and before the answer leaves
    tell("elected", r#""term":1,"voters":["n1","n2"]"#); // before the first entry leaves
    tell("appended", r#""entries":[[1,1,"9f86d081"]]"#);
    tell("committed", r#""term":1,"index":1"#);
    tell("stepped_down", r#""term":1"#);
}
