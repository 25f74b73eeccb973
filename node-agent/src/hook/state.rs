//! The state of a container as its runtime tells it to hooks.

use std::io::Read;
use std::path::PathBuf;

use serde::Deserialize;

use super::error::HookError;
use crate::ticket::ContainerId;

/// Far more than any state: annotations are part of it.
const MAX_STATE: u64 = 4 << 20;

/// What a hook is told, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ContainerState {
    /// The container.
    pub id: ContainerId,
    /// Folder with its `config.json`.
    pub bundle: PathBuf,
    /// Its first process; none before it is created and after it has ended.
    #[serde(default)]
    pub pid: Option<i32>,
}

impl ContainerState {
    /// Reads it to the end of `input`.
    ///
    /// # Errors
    /// [`HookError::Input`], [`HookError::TooLarge`], [`HookError::State`].
    pub fn read(input: impl Read) -> Result<Self, HookError> {
        let mut text = Vec::new();
        input
            .take(MAX_STATE + 1)
            .read_to_end(&mut text)
            .map_err(HookError::Input)?;
        if text.len() as u64 > MAX_STATE {
            return Err(HookError::TooLarge { limit: MAX_STATE });
        }
        let state: Self = serde_json::from_slice(&text).map_err(|error| HookError::State {
            reason: error.to_string(),
        })?;
        if state.bundle.is_absolute() {
            return Ok(state);
        }
        Err(HookError::State {
            reason: format!("bundle {:?} is no absolute path", state.bundle),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_state_of_each_runtime_is_read() {
        for text in [
            r#"{"ociVersion":"1.2.1","id":"a","status":"creating","pid":7,"bundle":"/b","annotations":{"x":"y"}}"#,
            r#"{"ociVersion":"1.0","id":"a","pid":7,"root":"/b/rootfs","bundle":"/b","status":"created"}"#,
        ] {
            let state = ContainerState::read(text.as_bytes()).expect(text);
            assert_eq!((state.id.as_str(), state.pid), ("a", Some(7)));
        }
        let ended =
            ContainerState::read(br#"{"id":"a","bundle":"/b"}"#.as_slice()).expect("no pid");
        assert_eq!(ended.pid, None);
    }

    #[test]
    fn what_is_no_state_is_refused() {
        for text in [
            "",
            "{}",
            "[]",
            "null",
            r#"{"id":"a"}"#,
            r#"{"bundle":"/b"}"#,
            r#"{"id":"../a","bundle":"/b"}"#,
            r#"{"id":"","bundle":"/b"}"#,
            r#"{"id":"a","bundle":"b"}"#,
            r#"{"id":"a","bundle":"/b","pid":"7"}"#,
        ] {
            let error = ContainerState::read(text.as_bytes()).expect_err(text);
            assert!(matches!(error, HookError::State { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn an_endless_state_is_not_read_to_its_end() {
        let error = ContainerState::read(io::repeat(b' ')).expect_err("endless");
        assert!(
            matches!(error, HookError::TooLarge { limit: MAX_STATE }),
            "{error}"
        );
        let state = r#"{"id":"a","bundle":"/"}"#;
        let limit = usize::try_from(MAX_STATE).expect("small");
        let longest = " ".repeat(limit - state.len()) + state;
        ContainerState::read(longest.as_bytes()).expect("the longest");
        ContainerState::read(format!(" {longest}").as_bytes()).expect_err("a byte more");
    }
}
