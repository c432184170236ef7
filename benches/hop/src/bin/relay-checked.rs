//! Passes a request on once it has arrived completely and is valid JSON: the minimum for a relay that never sends invalid
//! requests.

use toolwire_hop::Requests;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolwire_hop::run(Requests::Checked, |body| body)
}
