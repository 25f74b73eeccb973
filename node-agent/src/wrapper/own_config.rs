//! Whether the CRIU configuration file that a container names is the one that its restore has left.
//!
//! A dump makes CRIU read it again, as root. The wrapper's is harmless by then: what the site itself has CRIU read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use super::flags::Family;
use super::hold::CriuConf;
use super::settings::{FILE, Settings};

/// Is it? `program` is the runtime that would name it to CRIU.
pub(crate) fn is_own_config(file: &Path, id: &str, program: &Path) -> bool {
    let (settings, _) = Settings::read(Path::new(FILE), |name| std::env::var_os(name));
    is_below(file, id, &settings.run_folder, Family::of(program))
}

fn is_below(file: &Path, id: &str, run_folder: &Path, family: Family) -> bool {
    let Some(folder) = file.parent() else {
        return false;
    };
    let plain = file
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let named = folder
        .file_name()
        .is_some_and(|name| *name == *format!("id_{id}"));
    if !plain || !named || !folder.starts_with(run_folder.join("containers")) {
        return false;
    }
    let own = |path: &Path| {
        let me = rustix::process::geteuid().as_raw();
        fs::symlink_metadata(path)
            .is_ok_and(|metadata| metadata.uid() == me && metadata.mode() & 0o022 == 0)
    };
    let conf = CriuConf::new(folder, family);
    own(folder) && own(file) && conf.is_ok_and(|conf| conf.path() == file && conf.is_harmless())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_restore_has_left_is_harmless() {
        let dir = tempfile::tempdir().expect("folder");
        let folder = dir.path().join("containers/root/id_c");
        fs::create_dir_all(&folder).expect("made");
        let conf = CriuConf::new(&folder, Family::Runc).expect("configuration");
        let is_own = |file: &Path, id| is_below(file, id, dir.path(), Family::Runc);
        assert!(!is_own(&conf.path(), "c"), "not there");
        conf.harmless().expect("written");
        assert!(is_own(&conf.path(), "c"));
        assert!(!is_own(&conf.path(), "d"), "another container's");
        assert!(!is_own(&folder.join("../id_c/criu.conf"), "c"));
        assert!(!is_own(&folder.join("other.conf"), "c"));
        assert!(!is_below(
            &conf.path(),
            "c",
            Path::new("/run/rocferry"),
            Family::Runc
        ));
        let mut text = fs::read(conf.path()).expect("there");
        text.extend(b"action-script /tmp/x\n");
        fs::write(conf.path(), &text).expect("written");
        assert!(!is_own(&conf.path(), "c"), "a script");
        conf.harmless().expect("written");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&folder, open).expect("mode");
        assert!(!is_own(&conf.path(), "c"), "others may write there");
    }
}
