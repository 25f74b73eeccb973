//! The log of a pod's container on the node.

use std::fs;
use std::path::{Path, PathBuf};

use super::Pod;
use super::find::Member;

/// Where the kubelet has engines write logs.
const LOGS: &str = "/var/log/pods";
/// Where CRI-O says that it writes one.
const CRIO: &str = "io.kubernetes.cri-o.LogPath";

/// The file that a container writes now, if it can be found.
pub(crate) fn log(pod: &Pod, member: &Member) -> Option<PathBuf> {
    let oci = member.container.oci.as_ref();
    let said = oci.and_then(|oci| oci.annotation(CRIO)).map(PathBuf::from);
    let said = said.filter(|path| path.is_absolute() && is_file(path));
    said.or_else(|| {
        let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
        // An annotation may hold anything.
        let plain = !name.contains('/');
        plain.then(|| newest(&Path::new(LOGS).join(name).join(member.name.as_str())))?
    })
}

/// `N.log` with the highest number that holds anything: one for each time that the container was made, and an engine leaves an
/// empty one of a time that it was refused. If all are empty, the last.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let number = |name: &str| name.strip_suffix(".log")?.parse::<u64>().ok();
    let numbers = entries.filter_map(|entry| number(entry.ok()?.file_name().to_str()?));
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let mut logs = numbers
        .into_iter()
        .map(|number| folder.join(format!("{number}.log")))
        .filter(|path| is_file(path));
    let last = logs.next()?;
    let says = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
    if says(&last) {
        return Some(last);
    }
    Some(logs.find(says).unwrap_or(last))
}

fn is_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_the_last_start_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(newest(dir.path()), None);
        for name in ["0.log", "2.log", "10.log", "11.log.gz", "x.log"] {
            fs::write(dir.path().join(name), "").expect("written");
        }
        assert_eq!(newest(dir.path()), Some(dir.path().join("10.log")));
        // The later ones were refused.
        fs::write(dir.path().join("2.log"), "said").expect("written");
        assert_eq!(newest(dir.path()), Some(dir.path().join("2.log")));
        // A link may lead anywhere.
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("12.log")).expect("made");
        assert_eq!(newest(dir.path()), Some(dir.path().join("2.log")));
    }
}
