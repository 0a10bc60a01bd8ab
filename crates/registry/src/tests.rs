//! A registry with a real converter's schemas, and with a scripted server.

mod recorded;
mod served;
