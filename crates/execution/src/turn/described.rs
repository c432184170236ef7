//! Describes the images in results to models that do not see.

use tokio::time::timeout_at;

use super::{HostedTurn, Ran};
use crate::media::MediaFile;
use toolwire_pipeline::conversation::{Part, Role, Turn};

impl HostedTurn {
    /// Describes the images in results, if the model does not see. Descriptions count towards the limit of results.
    pub(super) async fn described(&self, mut ran: Vec<Ran>) -> Vec<Ran> {
        let Some(describer) = &self.asker.describer else { return ran };
        let has_images = |ran: &&mut Ran| ran.media.iter().any(MediaFile::is_image);
        let turns = ran.iter_mut().filter(has_images).map(|ran| {
            let images = ran.media.extract_if(.., |file| file.is_image()).map(|image| image.image());
            let images: Vec<_> = images.collect();
            Turn::of(Role::Tool, std::iter::once(Part::Result(ran.output.clone())).chain(images).collect())
        });
        let turns: Vec<_> = turns.collect();
        if turns.is_empty() {
            return ran;
        }
        let described = timeout_at(self.deadline, describer.describe(turns, &self.asker)).await;
        let mut state = self.state.lock();
        for part in described.into_iter().flatten().flat_map(|turn| turn.parts) {
            let Part::Result(output) = part else { continue };
            let Some(ran) = ran.iter_mut().find(|ran| ran.output.id == output.id) else { continue };
            let more = output.content.len().saturating_sub(ran.output.content.len());
            if state.bytes + more <= self.execution.settings().max_results {
                state.bytes += more;
                ran.output = output;
            }
        }
        ran
    }
}
