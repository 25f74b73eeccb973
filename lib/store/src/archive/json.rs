//! The JSON files of an archive: what must not be in them, and what is taken from them in bounded memory.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::Refusal;

/// Longest text that is taken as a name, in bytes, as in manifests.
const MAX_TEXT: usize = 1024;
/// Most entries of a list or map that is taken.
const MAX_LIST: usize = 4096;
/// How deep JSON may be in the strings of JSON.
const MAX_NESTED: usize = 4;

/// Beginning of the annotations by which devices are asked for.
const CDI_PREFIX: &str = "cdi.k8s.io/";

/// Annotations by which CDI devices are asked for.
pub(super) fn is_cdi(annotation: &str) -> bool {
    annotation.starts_with(CDI_PREFIX)
}

/// Reads one of the JSON files.
pub(super) fn parse<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(data).map_err(|error| refusal(&error))
}

/// The same where it must be an object: derived code takes lists as well.
pub(super) fn parse_object<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, Refusal> {
    if data.trim_ascii_start().first() != Some(&b'{') {
        let reason = "it is no object".to_owned();
        return Err(Refusal::Json { reason });
    }
    parse(data)
}

fn refusal(error: &serde_json::Error) -> Refusal {
    // It may quote what it found.
    let reason = error.to_string().chars().take(200).collect();
    Refusal::Json { reason }
}

/// Checks that a file is JSON and asks for no CDI devices, wherever in it.
pub(super) fn check(data: &[u8]) -> Result<(), Refusal> {
    let mut found = None;
    scan(data, 0, &mut found).map_err(|error| refusal(&error))?;
    found.map_or(Ok(()), |key| Err(Refusal::Cdi { key }))
}

fn scan(data: &[u8], depth: usize, found: &mut Option<String>) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    Scan { depth, found }.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// Looks at all keys, and into strings that are JSON themselves. Keeps nothing.
struct Scan<'a> {
    depth: usize,
    found: &'a mut Option<String>,
}

impl Scan<'_> {
    fn again(&mut self) -> Scan<'_> {
        Scan {
            depth: self.depth,
            found: self.found,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        let nested = text.trim_start().starts_with(['{', '[']);
        if nested && self.depth < MAX_NESTED {
            // What is no JSON is a text like any other. What was found before the error still counts.
            drop(scan(text.as_bytes(), self.depth + 1, self.found));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self.again())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if is_cdi(&key) {
                self.found
                    .get_or_insert_with(|| key.chars().take(120).collect());
            }
            if is_device_list(&key) {
                // Nobody is asked for anything by an empty list.
                let Presence(present) = map.next_value()?;
                if present {
                    self.found.get_or_insert(key);
                }
            } else {
                map.next_value_seed(self.again())?;
            }
        }
        Ok(())
    }
}

/// Fields of CRI in the spellings of its JSON forms.
fn is_device_list(key: &str) -> bool {
    key.len() < 16 && key.replace('_', "").eq_ignore_ascii_case("cdidevices")
}

/// Whether a value is there and not empty.
struct Presence(bool);

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Presence;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Presence, E> {
                Ok(Presence(false))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Presence, E> {
                Ok(Presence(true))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Presence, E> {
                Ok(Presence(true))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Presence, E> {
                Ok(Presence(true))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Presence, E> {
                Ok(Presence(true))
            }

            fn visit_str<E>(self, _: &str) -> Result<Presence, E> {
                Ok(Presence(true))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Presence, A::Error> {
                let mut present = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    present = true;
                }
                Ok(Presence(present))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Presence, A::Error> {
                let mut present = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    present = true;
                }
                Ok(Presence(present))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A text, if the value is one that can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<const MAX: usize = MAX_TEXT>(pub(super) Option<String>);

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lenient<const MAX: usize>;
        impl<'de, const MAX: usize> Visitor<'de> for Lenient<MAX> {
            type Value = Text<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<MAX>, E> {
                let usable = !text.is_empty() && text.len() <= MAX && !text.contains('\0');
                Ok(Text(usable.then(|| text.to_owned())))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Text<MAX>, E> {
                Ok(Text(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Text<MAX>, E> {
                Ok(Text(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Text<MAX>, E> {
                Ok(Text(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Text<MAX>, E> {
                Ok(Text(None))
            }

            fn visit_unit<E>(self) -> Result<Text<MAX>, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<MAX>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<MAX>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }
        }
        deserializer.deserialize_any(Lenient)
    }
}

/// A list of at most [`MAX_LIST`] values; `null` is an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded<T>(Vec<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_LIST} values")
            }

            fn visit_unit<E>(self) -> Result<List<T>, E> {
                Ok(List(self.0))
            }

            fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<List<T>, A::Error> {
                while let Some(value) = seq.next_element()? {
                    if self.0.len() >= MAX_LIST {
                        return Err(A::Error::invalid_length(MAX_LIST + 1, &"fewer values"));
                    }
                    self.0.push(value);
                }
                Ok(List(self.0))
            }
        }
        deserializer.deserialize_any(Bounded(Vec::new()))
    }
}

/// Names and texts, at most [`MAX_LIST`] of them, in the order of their names. Of a name that is there twice
/// the last one counts, as it does for engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts(pub(super) std::collections::BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_LIST} texts by name")
            }

            fn visit_unit<E>(self) -> Result<Texts, E> {
                Ok(Texts::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
                let mut texts = Texts::default();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if texts.0.len() >= MAX_LIST {
                        return Err(A::Error::invalid_length(MAX_LIST + 1, &"fewer texts"));
                    }
                    texts.0.insert(name, value);
                }
                Ok(texts)
            }
        }
        deserializer.deserialize_any(Bounded)
    }
}
