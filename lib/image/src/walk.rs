//! Walking over the fields of a protobuf message without building it.
//!
//! The lists of a kfd image hold millions of entries. A derived decoder would first build all of them,
//! and an empty entry of two bytes costs it seventy: here each entry is decoded, checked and made small
//! before the next one.

use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

use crate::FormatError;

/// Value of a field.
pub(crate) enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// Some other wire type.
    Other,
}

/// Calls `each` with number and value of every field, in the order of the encoding.
pub(crate) fn fields<'a>(
    message: &'static str,
    mut content: &'a [u8],
    mut each: impl FnMut(u32, Field<'a>) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let invalid = |error| protobuf(message, &error);
    while content.has_remaining() {
        let (number, wire_type) = decode_key(&mut content).map_err(invalid)?;
        let field = match wire_type {
            WireType::Varint => Field::Varint(decode_varint(&mut content).map_err(invalid)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut content).map_err(invalid)?;
                let split = usize::try_from(length)
                    .ok()
                    .and_then(|at| content.split_at_checked(at));
                let Some((bytes, rest)) = split else {
                    return Err(malformed(message, "field exceeds the message"));
                };
                content = rest;
                Field::Bytes(bytes)
            }
            other => {
                skip_field(other, number, &mut content, DecodeContext::default())
                    .map_err(invalid)?;
                Field::Other
            }
        };
        each(number, field)?;
    }
    Ok(())
}

pub(crate) fn protobuf(message: &'static str, error: &DecodeError) -> FormatError {
    FormatError::Protobuf {
        message,
        reason: error.to_string(),
    }
}

pub(crate) fn malformed(message: &'static str, reason: &str) -> FormatError {
    FormatError::Protobuf {
        message,
        reason: reason.to_owned(),
    }
}

/// Decodes a message with a derived decoder.
pub(crate) fn decode<M: Message + Default>(
    message: &'static str,
    content: &[u8],
) -> Result<M, FormatError> {
    M::decode(content).map_err(|error| protobuf(message, &error))
}

impl<'a> Field<'a> {
    pub(crate) fn u64(&self, message: &'static str) -> Result<u64, FormatError> {
        match self {
            Self::Varint(value) => Ok(*value),
            _ => Err(malformed(message, "invalid wire type")),
        }
    }

    /// The low 32 bits: what every protobuf decoder makes of a longer varint.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "protobuf defines the truncation"
    )]
    pub(crate) fn u32(&self, message: &'static str) -> Result<u32, FormatError> {
        self.u64(message).map(|value| value as u32)
    }

    pub(crate) fn bytes(&self, message: &'static str) -> Result<&'a [u8], FormatError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(malformed(message, "invalid wire type")),
        }
    }
}

/// The value of a required field.
pub(crate) fn required<T>(
    message: &'static str,
    index: Option<usize>,
    field: &'static str,
    value: Option<T>,
) -> Result<T, FormatError> {
    value.ok_or(FormatError::MissingField {
        message,
        index,
        field,
    })
}

/// Shorthand: the required field `$field` of the decoded message `$from`.
macro_rules! need {
    ($message:expr, $index:expr, $from:ident . $field:ident) => {
        $crate::walk::required($message, $index, stringify!($field), $from.$field)?
    };
}
pub(crate) use need;
