//! Fields out of the table of a connection: what a client sent once it names by a number from then on, long fields, too, and
//! as often as it likes. It is the same request as one that is written out.

use super::case::{Case, CaseLine};
use super::random::Random;

/// A field of this length fits into the table.
const LONG: usize = 3400;
/// With so many of them the head is no longer than the gateway takes.
const MOST: usize = 8;
/// Above this a target leaves no room for them.
const TARGET: usize = 20_000;

/// Writes the request with the connection's table, and maybe with a long field out of it.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    case.frames.table = true;
    if case.target.len() > TARGET || random.percent(50) {
        return "framing: fields out of the table".to_owned();
    }
    let times = 1 + random.below(MOST);
    case.lines.extend((0..times).map(|_| CaseLine::new("x-filler", vec![b'x'; LONG])));
    format!("framing: fields out of the table, a long one {times} times")
}
