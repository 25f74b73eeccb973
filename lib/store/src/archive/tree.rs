//! What was there already, so that nothing comes twice and nothing is in a file.

use std::collections::HashMap;

use super::{Limits, Refusal};

/// How a directory got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File,
    Listed,
    /// Something is in it, but it was not listed yet.
    Implied,
}

/// All paths up to now.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: HashMap<String, Node>,
    /// Length of all paths.
    bytes: usize,
    /// The root itself was listed.
    root: bool,
}

impl Tree {
    /// The root itself is a member.
    pub(super) fn root(&mut self) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.root, true) {
            return Err(Refusal::Duplicate);
        }
        Ok(())
    }

    /// Adds a member. Returns the directories above it that were not there yet, the outermost first.
    pub(super) fn add(
        &mut self,
        path: &str,
        directory: bool,
        limits: &Limits,
    ) -> Result<Vec<String>, Refusal> {
        // From the inside: whatever is there has what it is in there as well.
        let mut implied = Vec::new();
        let mut inner = path;
        while let Some((above, _)) = inner.rsplit_once('/') {
            match self.nodes.get(above) {
                Some(Node::File) => return Err(Refusal::NotInDirectory),
                Some(Node::Listed | Node::Implied) => break,
                None => {
                    self.insert(above, Node::Implied, limits)?;
                    implied.push(above.to_owned());
                    inner = above;
                }
            }
        }
        implied.reverse();
        match self.nodes.get_mut(path) {
            Some(node @ Node::Implied) if directory => *node = Node::Listed,
            Some(_) => return Err(Refusal::Duplicate),
            None => {
                let node = if directory { Node::Listed } else { Node::File };
                self.insert(path, node, limits)?;
            }
        }
        Ok(implied)
    }

    /// Whether that path is a file.
    pub(super) fn is_file(&self, path: &str) -> bool {
        self.nodes.get(path) == Some(&Node::File)
    }

    /// Number of files and directories.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    fn insert(&mut self, path: &str, node: Node, limits: &Limits) -> Result<(), Refusal> {
        if self.nodes.len() >= limits.members {
            let limit = limits.members;
            return Err(Refusal::Members { limit });
        }
        self.bytes = self.bytes.saturating_add(path.len());
        if self.bytes > limits.path_bytes {
            let limit = limits.path_bytes;
            return Err(Refusal::PathBytes { limit });
        }
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }
}
