//! Which members an archive gets, for whom.

use std::io::Read;

use super::convert::{Documents, Facts};
use super::deleted;
use super::diff::{self, Diff};
use super::error::excerpt;
use super::tree::Tree;
use super::write::{Source, open};
use super::{
    CONFIG_DUMP, DELETED_FILES, DEVSHM, Engine, Entry, EntryKind, INVENTORY, Limits, MAX_JSON,
    ROOTFS_DIFF, Refusal, SPEC_DUMP, STATUS_DUMP, WriteError, pathname,
};

/// Where a member's content comes from.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A directory.
    Nothing,
    /// From here.
    Bytes(Vec<u8>),
    /// From the checkpoint, as it is.
    Source(usize),
    /// From the checkpoint, converted.
    Diff(Diff),
}

/// The members of an archive, in order: what says what it is comes first, then the others by path.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) members: Vec<(Entry, Body)>,
    /// The configuration, as it is in the archive.
    pub(super) documents: Documents,
}

/// Names of the container's log, in each engine's archives.
const LOGS: [&str; 3] = ["ctr.log", "io.kubernetes.cri-o.LogPath", "container.log"];

const fn log_name(engine: Engine) -> &'static str {
    let [podman, crio, containerd] = LOGS;
    match engine {
        Engine::Podman => podman,
        Engine::CriO => crio,
        Engine::Containerd => containerd,
    }
}

/// Whether the engine takes a member of that name at the root, or below that directory, as it is.
fn takes(engine: Engine, root: &str) -> bool {
    match root {
        "checkpoint" => true,
        // Made, or converted, where there is need.
        CONFIG_DUMP | SPEC_DUMP | STATUS_DUMP | ROOTFS_DIFF | DELETED_FILES => false,
        DEVSHM | "pod.options" | "pod.dump" | "artifacts" => engine != Engine::Containerd,
        "network.status" | "volumes" => engine == Engine::Podman,
        "bind.mounts" => engine == Engine::CriO,
        // The state that containerd keeps of a container, for tools that show checkpoints.
        "status" => engine == Engine::Containerd,
        _ => !LOGS.contains(&root) && !root.starts_with("rocferry"),
    }
}

impl Plan {
    /// Decides.
    pub(super) fn make(
        source: &mut dyn Source,
        engine: Engine,
        facts: &Facts,
    ) -> Result<Self, WriteError> {
        let list = sorted(source)?;
        let find = |path: &str| {
            let found = list.iter().find(|(entry, _)| entry.path == path);
            found.and_then(|(_, index)| *index)
        };
        let needed = |member| find(member).ok_or(WriteError::Missing { member });
        needed(INVENTORY)?;
        let (config, spec) = (needed(CONFIG_DUMP)?, needed(SPEC_DUMP)?);
        let status = find(STATUS_DUMP);
        let config_data = small(source, config)?;
        let spec_data = small(source, spec)?;
        let status_data = status.map(|index| small(source, index)).transpose()?;
        let mut documents = Documents::parse(&config_data, &spec_data, status_data.as_deref())?;
        documents.convert(engine, facts)?;

        let mut plan = Self {
            members: Vec::new(),
            documents,
        };
        let like = source.entries().get(config).cloned();
        let like = like.ok_or(WriteError::Missing {
            member: CONFIG_DUMP,
        })?;
        plan.put(&like, CONFIG_DUMP, plan.documents.config());
        plan.put(&like, SPEC_DUMP, plan.documents.spec());
        if engine == Engine::Containerd {
            plan.put(&like, STATUS_DUMP, plan.documents.status());
        }
        let log = std::iter::once(log_name(engine))
            .chain(LOGS)
            .find(|log| find(log).is_some());
        for (entry, index) in &list {
            plan.member(source, engine, entry, *index, log)?;
        }
        let head = if engine == Engine::Containerd { 3 } else { 2 };
        plan.root_file_system(
            source,
            engine,
            &like,
            find(ROOTFS_DIFF),
            find(DELETED_FILES),
        )?;
        if let Some((_, rest)) = plan.members.split_at_mut_checked(head) {
            rest.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        }
        Ok(plan)
    }

    /// A member that is not made or converted.
    fn member(
        &mut self,
        source: &mut dyn Source,
        engine: Engine,
        entry: &Entry,
        index: Option<usize>,
        log: Option<&str>,
    ) -> Result<(), WriteError> {
        let root = entry.path.split('/').next().unwrap_or_default();
        let body = index.map_or(Body::Nothing, Body::Source);
        if log == Some(entry.path.as_str()) {
            let path = log_name(engine).to_owned();
            self.members.push((
                Entry {
                    path,
                    ..entry.clone()
                },
                body,
            ));
            return Ok(());
        }
        if takes(engine, root) {
            self.members.push((entry.clone(), body));
            return Ok(());
        }
        let lost = match (root, index) {
            (DEVSHM, Some(index)) if !diff::is_empty(source, index, DEVSHM)? => {
                "the content of /dev/shm would be lost"
            }
            ("volumes", Some(_)) => "the content of a volume would be lost",
            _ => return Ok(()),
        };
        Err(WriteError::Unsupported {
            engine,
            member: excerpt(entry.path.as_bytes()),
            reason: lost,
        })
    }

    /// Changes of the root file system and deleted files, in the engine's form.
    fn root_file_system(
        &mut self,
        source: &mut dyn Source,
        engine: Engine,
        like: &Entry,
        index: Option<usize>,
        list: Option<usize>,
    ) -> Result<(), WriteError> {
        let data = list.map(|index| small(source, index)).transpose()?;
        let mut deleted = deleted::parse(data.as_deref().unwrap_or_default())
            .map_err(|refusal| refused(DELETED_FILES, refusal))?;
        let converted = if engine == Engine::Containerd {
            diff::layer(source, index, std::mem::take(&mut deleted))?
        } else {
            diff::plain(source, index, engine)?
        };
        let entry = index
            .and_then(|index| source.entries().get(index))
            .unwrap_or(like);
        let path = ROOTFS_DIFF.to_owned();
        match (converted.diff, index) {
            (Some(diff), _) => {
                let kind = EntryKind::File { size: diff.size };
                let entry = Entry {
                    path,
                    kind,
                    ..entry.clone()
                };
                self.members.push((entry, Body::Diff(diff)));
            }
            (None, Some(index)) => self.members.push((entry.clone(), Body::Source(index))),
            (None, None) => {}
        }
        if engine != Engine::Containerd {
            deleted.extend(converted.deleted);
            if list.is_some() || !deleted.is_empty() {
                self.put(like, DELETED_FILES, deleted::list(deleted));
            }
        }
        Ok(())
    }

    /// Adds a file that is made here, with the owner and time of another one.
    fn put(&mut self, like: &Entry, path: &str, content: Vec<u8>) {
        let entry = Entry {
            path: path.to_owned(),
            kind: EntryKind::File {
                size: content.len() as u64,
            },
            ..like.clone()
        };
        self.members.push((entry, Body::Bytes(content)));
    }
}

/// All files and directories by path, made-up directories included, and the number of each file.
fn sorted(source: &dyn Source) -> Result<Vec<(Entry, Option<usize>)>, WriteError> {
    let mut tree = Tree::default();
    let mut list: Vec<(Entry, Option<usize>)> = Vec::new();
    let mut entries: Vec<(usize, &Entry)> = source.entries().iter().enumerate().collect();
    entries.sort_by(|(_, a), (_, b)| a.path.cmp(&b.path));
    for (index, entry) in entries {
        let failed = |refusal| refused(&entry.path, refusal);
        pathname::check(&entry.path).map_err(failed)?;
        let directory = entry.kind == EntryKind::Directory;
        let implied = tree
            .add(&entry.path, directory, &Limits::default())
            .map_err(failed)?;
        for path in implied {
            let above = Entry {
                path,
                mode: 0o700,
                kind: EntryKind::Directory,
                ..entry.clone()
            };
            list.push((above, None));
        }
        list.push((entry.clone(), (!directory).then_some(index)));
    }
    Ok(list)
}

/// Reads one of the small files.
fn small(source: &mut dyn Source, index: usize) -> Result<Vec<u8>, WriteError> {
    let entry = source.entries().get(index);
    let path = entry.map(|entry| entry.path.clone()).unwrap_or_default();
    let (bytes, limit) = (entry.map_or(0, Entry::size), MAX_JSON);
    if bytes > limit {
        return Err(refused(&path, Refusal::Size { bytes, limit }));
    }
    let mut data = Vec::new();
    let reader = open(source, index)?;
    let read = reader.take(limit + 1).read_to_end(&mut data);
    read.map_err(|error| WriteError::Source {
        member: path.clone(),
        source: error.into(),
    })?;
    if data.len() as u64 != bytes {
        return Err(WriteError::Length {
            member: path,
            expected: bytes,
        });
    }
    Ok(data)
}

fn refused(path: &str, refusal: Refusal) -> WriteError {
    let member = excerpt(path.as_bytes());
    WriteError::Member { member, refusal }
}
