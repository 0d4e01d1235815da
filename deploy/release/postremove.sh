#!/bin/sh
# A removal keeps the settings, as Debian has it. A purge deletes them and the keys. The data and
# the user stay in any case, because only the administrator knows whether they are still needed.
#
# dpkg passes "remove", "purge" or "upgrade", rpm the number of versions that stay.
set -e

case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
[ "$1" != remove ] || exit 0

rm -f /etc/systemd/system/multi-user.target.wants/hookladder.service
[ "$1" != purge ] || rm -rf /etc/hookladder
if [ -d /var/lib/hookladder ]; then
	echo "hookladder: kept its data in /var/lib/hookladder and the user hookladder; delete them with: rm -r /var/lib/hookladder && userdel hookladder"
else
	echo "hookladder: kept the user hookladder; delete it with: userdel hookladder"
fi
