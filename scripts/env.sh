# Sourced by the other scripts: where the build goes. deltalake and datafusion take long to compile, so the target
# folder lies outside the checkout and a fresh clone reuses it.
: "${CARGO_TARGET_DIR:=${XDG_CACHE_HOME:-$HOME/.cache}/highwater/target}"
export CARGO_TARGET_DIR
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Cargo goes by time alone: to a checkout whose files are older than what another one has built here, that is fresh.
mkdir -p "$CARGO_TARGET_DIR"
if [ "$(cat "$CARGO_TARGET_DIR/checkout" 2>/dev/null)" != "$PWD" ]; then
  find crates tests benches -name '*.rs' -exec touch {} +
  echo "$PWD" > "$CARGO_TARGET_DIR/checkout"
fi

# The one set of build flags: another set of packages or features would compile the dependencies once more.
build=(--release --workspace --all-targets --locked)

say() { printf '== %s\n' "$*" >&2; }

# retry COMMAND...: three tries with a pause, for steps that need the network
retry() {
  local try
  for try in 1 2 3; do
    "$@" && return 0
    [ "$try" = 3 ] || { say "failed, trying again in $((try * 10)) s: $*"; sleep $((try * 10)); }
  done
  say "gave up: $*; is the network there?"
  return 1
}
