//! Sending a directory while somebody still writes into it.

use std::collections::HashMap;
use std::path::PathBuf;

use rocferry_image::manifest::BLOCK_SIZE;

use super::{Cuts, NewContent, Source, Upload, tree};
use crate::StoreError;

/// Follows a directory that somebody writes into, CRIU for instance, who does not say how far they are.
///
/// What is there is sent early, in whole blocks. When the writer is done, [`Upload::add_tree`] reads
/// everything once more: what has not changed since is in the store by then. So it does not matter in which
/// order files are written, only how much of it is over before the writer is done.
#[derive(Debug)]
pub struct Follower {
    root: PathBuf,
    /// Bytes of each file that were sent.
    sent: HashMap<String, u64>,
}

impl Follower {
    /// Of this directory; it need not exist yet.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        let sent = HashMap::new();
        Self { root, sent }
    }

    /// Sends what has come since the last time. To be called again and again while the writer works: a second
    /// apart is often enough.
    ///
    /// # Errors
    /// Any error that ended the upload. What cannot be read now is left for later.
    pub async fn look<C: Cuts + Clone + 'static>(
        &mut self,
        upload: &mut Upload,
        cuts: &C,
    ) -> Result<(), StoreError> {
        upload.check()?;
        let (root, for_tree) = (self.root.clone(), cuts.clone());
        let seen = tokio::task::spawn_blocking(move || tree(&root, &for_tree)).await?;
        // A file that goes away while it is looked at is as good as one that is not there.
        let Ok(entries) = seen else { return Ok(()) };
        for entry in entries {
            let NewContent::Regular(Source::Path(path), readable) = entry.content else {
                continue;
            };
            if !cuts.known(&entry.path) {
                continue;
            }
            let sent = self.sent.entry(entry.path).or_insert(0);
            for part in readable.whole_blocks(*sent, BLOCK_SIZE) {
                *sent = part.end;
                upload.send_early(Source::Path(path.clone()), part);
            }
        }
        Ok(())
    }
}
