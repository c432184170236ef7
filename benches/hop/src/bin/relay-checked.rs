//! Passes a request on when all of it is there and is JSON: the least that a relay does which does not send invalid requests.

use toolwire_hop::Requests;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolwire_hop::run(Requests::Checked, |body| body)
}
