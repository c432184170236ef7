//! Passes bodies on unchanged: the minimum cost of a hop with hyper on both sides.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    toolwire_hop::run(|body| body)
}
