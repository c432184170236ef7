//! Forwards a request once it is complete and known to be valid JSON. This shows the minimum cost of a relay that
//! never sends invalid requests.

use toolwire_hop::Requests;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolwire_hop::run(Requests::Checked, |body| body)
}
