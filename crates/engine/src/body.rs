//! A body, as a gateway keeps it: in one piece or in several.

use std::cell::OnceCell;

/// A whole body, or a part of one. It is copied only if somebody needs several pieces as one.
#[derive(Debug)]
pub struct Body<'a> {
    pieces: Pieces<'a>,
    joined: OnceCell<Vec<u8>>,
}

#[derive(Debug)]
enum Pieces<'a> {
    One(&'a [u8]),
    Many(&'a [&'a [u8]]),
}

impl<'a> Body<'a> {
    /// A body in one piece.
    pub const fn of(bytes: &'a [u8]) -> Self {
        Self { pieces: Pieces::One(bytes), joined: OnceCell::new() }
    }

    /// A body in pieces, in order.
    pub fn of_pieces(pieces: &'a [&'a [u8]]) -> Self {
        match pieces {
            [one] => Self::of(one),
            many => Self { pieces: Pieces::Many(many), joined: OnceCell::new() },
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces, in order.
    pub const fn pieces(&self) -> &[&'a [u8]] {
        match &self.pieces {
            Pieces::One(bytes) => std::slice::from_ref(bytes),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// All bytes as one piece. Several pieces are copied, the first time that this is called.
    pub fn bytes(&self) -> &[u8] {
        match &self.pieces {
            Pieces::One(bytes) => bytes,
            Pieces::Many(pieces) => self.joined.get_or_init(|| pieces.concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Body;

    #[test]
    fn pieces_are_one_body() {
        let pieces = [&b"{\"a\""[..], b"", b":1}"];
        let body = Body::of_pieces(&pieces);
        assert_eq!((body.bytes(), body.len(), body.is_empty()), (&b"{\"a\":1}"[..], 7, false));
        assert!(body.joined.get().is_some());
        let one = Body::of_pieces(&pieces[..1]);
        assert_eq!((one.bytes(), one.len()), (&b"{\"a\""[..], 4));
        assert!(one.joined.get().is_none(), "one piece is not copied");
        let none = Body::of_pieces(&[]);
        assert_eq!((none.bytes(), none.is_empty(), none.pieces().len()), (&b""[..], true, 0));
    }
}
