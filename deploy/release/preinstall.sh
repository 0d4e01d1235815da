#!/bin/sh
# Makes the user of the service before its files arrive. dpkg, rpm and apk run it.
set -e

if ! getent passwd hookladder >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --no-create-home --home-dir /var/lib/hookladder --shell /usr/sbin/nologin \
			--comment "Hookladder" hookladder
	else # Alpine
		addgroup -S hookladder
		adduser -S -D -H -h /var/lib/hookladder -s /sbin/nologin -G hookladder -g Hookladder hookladder
	fi
fi
