#!/bin/sh
# Shows systemd the new unit. An upgrade restarts the service if it runs. To enable and to start
# it is up to the administrator, because it needs settings first.
#
# dpkg passes "configure" and the version that was installed before, rpm the number of versions
# that are installed now, apk the new version and the old one.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" = 2 ]; then
		systemctl try-restart hookladder.service || true
	fi
fi
