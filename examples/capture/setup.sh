# Asks as an installer does. docs/capture.md tells what a capture makes of a session with it.
echo "Reading package lists"
printf 'Continue? [y/n] '
read -r agreed
[ "$agreed" = y ] || exit 3
echo yes >> agreed
echo Installed.
