-- which_server: return the id of the process. It is put behind the commands of a round trip that read by a cursor.
-- needs: server(server)
--
-- KEYS[1] tag  {<project>:<n>} or {<project>}, never exists
-- ARGV[..]     none
-- returns the process's id; empty if a service hides it
return { server() }
