//! Lumo, through its public face: streams read whole, in small pieces and at every two-way split; conversations encoded.

#[cfg(test)]
mod assembled;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod server_calls;
#[cfg(test)]
mod streams;
