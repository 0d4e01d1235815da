-- server: the process that runs this script. It is put before scripts that read a page by the cursor of another call: such a
-- cursor is valid for one process only. It takes no arguments of its own: ARGV[3..] is the script's.

-- server is the process's id; empty if a service hides it.
local function server()
  local text = redis.pcall('INFO', 'server')
  return type(text) == 'string' and string.match(text, 'run_id:(%w+)') or ''
end
