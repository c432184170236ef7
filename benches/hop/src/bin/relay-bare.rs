//! Forwards bodies unchanged. This shows the minimum cost of a hop with hyper on both sides.

use toolwire_hop::Requests;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolwire_hop::run(Requests::Streamed, |body| body)
}
