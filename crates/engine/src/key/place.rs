//! The places beside `Idempotency-Key` where a client's key may be: headers of other names, and members of a JSON body
//! (docs/contract.md section 3).

use super::grammar::KeyError;
use crate::body::Body;
use crate::json::scan::{self, JsonScalar, Pointer, PointerResult};

/// A place of `key.from`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlace {
    /// The name of a header in lower case, or a JSON pointer (RFC 6901)
    pub name: String,
    /// The pointer, if it is one
    pub(crate) member: Option<Pointer>,
}

impl KeyPlace {
    /// The name of a header other than `Idempotency-Key`, which is read in any case.
    pub(crate) fn header(&self) -> Option<&str> {
        self.member.is_none().then_some(&*self.name)
    }

    /// The place, as a sentence for clients names it.
    pub(super) fn described(&self) -> String {
        match self.member {
            None => format!("the header {}", self.name),
            Some(_) => format!("the member {} of the JSON body", self.name),
        }
    }
}

/// Finds the key in the body of a request. `None` if the body is empty, or no place has a value.
///
/// # Errors
/// [`KeyError::BodyNotJson`], [`KeyError::Twice`], [`KeyError::NotString`], or [`KeyError::Places`] for two places with different keys.
#[inline(never)]
pub(crate) fn find_in_body(places: &[KeyPlace], body: &Body<'_>) -> Result<Option<Vec<u8>>, KeyError> {
    if body.is_empty() {
        return Ok(None);
    }
    let pointers: Vec<&Pointer> = places.iter().filter_map(|place| place.member.as_ref()).collect();
    let mut key: Option<Vec<u8>> = None;
    for found in scan::find(body.bytes(), &pointers).map_err(|_| KeyError::BodyNotJson)? {
        let text = match found {
            PointerResult::Missing => continue,
            PointerResult::Ambiguous | PointerResult::Several => return Err(KeyError::Twice),
            PointerResult::Value(JsonScalar::Text(text)) => text.decode().into_owned(),
            PointerResult::Value(_) => return Err(KeyError::NotString),
        };
        if key.as_ref().is_some_and(|first| *first != text) {
            return Err(KeyError::Places);
        }
        key = Some(text);
    }
    Ok(key)
}
