//! Finding a container by its id, or the beginning of it, in the state folders of runtimes.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Runc, of_program};
use crate::runtime::{Container, RuntimeError, RuntimeKind};

/// Where runtimes keep their state, and for whom: containerd under a kubelet, by itself, under Docker; CRI-O and runc
/// by hand; crun.
const ROOTS: [&str; 6] = [
    "/run/containerd/runc/k8s.io",
    "/run/containerd/runc/default",
    "/run/docker/runtime-runc/moby",
    "/run/runc",
    "/run/crun",
    "/run/user/0/runc",
];

pub(super) fn find(runc: &Runc, name: &str) -> Result<Container, RuntimeError> {
    let roots = roots(runc);
    let (root, id) = search(&roots, name)?;
    let program = match &runc.program {
        Some(program) => program.clone(),
        None => program_of(&root),
    };
    let state = of_program(&program, Some(&root), &id)?;
    state.container(RuntimeKind::Runc, name, program, Some(root))
}

/// Where containers are looked for.
pub(super) fn roots(runc: &Runc) -> Vec<PathBuf> {
    match &runc.root {
        Some(root) => vec![root.clone()],
        None => ROOTS.map(PathBuf::from).to_vec(),
    }
}

/// The container of that id; else the only one whose id begins so.
fn search(roots: &[PathBuf], name: &str) -> Result<(PathBuf, String), RuntimeError> {
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
    let mut begins: Option<(&PathBuf, String)> = None;
    for root in roots.iter().filter(|_| plain) {
        if root.join(name).is_dir() {
            return Ok((root.clone(), name.to_owned()));
        }
        let Ok(entries) = fs::read_dir(root) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok) {
            let Ok(id) = entry.file_name().into_string() else {
                continue;
            };
            // Shorter ones are too likely to be a mistake.
            if name.len() < 4 || !id.starts_with(name) || !entry.path().is_dir() {
                continue;
            }
            if let Some((_, first)) = begins {
                return Err(RuntimeError::Ambiguous {
                    name: name.to_owned(),
                    first,
                    second: id,
                });
            }
            begins = Some((root, id));
        }
    }
    match begins {
        Some((root, id)) => Ok((root.clone(), id)),
        None => Err(RuntimeError::NotFound {
            name: name.to_owned(),
            runtime: "an OCI runtime",
            places: format!(
                " in {}",
                roots
                    .iter()
                    .map(|root| root.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }),
    }
}

pub(super) fn program_of(root: &Path) -> PathBuf {
    match root.components().any(|part| part.as_os_str() == "crun") {
        true => "crun".into(),
        false => "runc".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_be_shortened_while_it_is_clear() {
        let dir = tempfile::tempdir().expect("a folder");
        let roots = [dir.path().join("one"), dir.path().join("two")];
        for id in ["one/abcdef", "one/abcd99", "two/abcdef123", "two/zzzz"] {
            fs::create_dir_all(dir.path().join(id)).expect("made");
        }
        let search = |name| search(&roots, name).map(|(_, id)| id);
        assert_eq!(search("abcdef").expect("whole"), "abcdef");
        assert_eq!(search("zzzz").expect("whole"), "zzzz");
        assert_eq!(search("abcd9").expect("clear"), "abcd99");
        assert!(matches!(
            search("abcd"),
            Err(RuntimeError::Ambiguous { .. })
        ));
        for missing in ["", "zzz", "..", "one/abcdef", "nothing"] {
            let error = search(missing).expect_err(missing).to_string();
            assert!(error.contains("one, "), "{error}");
        }
        assert_eq!(program_of(Path::new("/run/crun")), Path::new("crun"));
        assert_eq!(program_of(Path::new("/run/runc")), Path::new("runc"));
    }
}
