#!/bin/sh
# Stops the service before its files go. An upgrade leaves it running, and restarts it later.
#
# dpkg passes "remove" or "upgrade", rpm the number of versions that stay, apk the version.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload stop hookladder.service || true
	fi
	;;
esac
