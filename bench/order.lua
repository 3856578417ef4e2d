-- What wrk sends. Arguments: a path, and "none" for no key, "same" for one key, "unique" for a new one each time.
-- Requests are put together by hand in all three, so that wrk spends the same on each.
local body = '{"sku":"ABC-123","count":3}'
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init(args)
  local path, keys = args[1], args[2]
  local prefix = string.format("%x-%d-", os.time(), number)
  local head = "POST " .. path .. " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    .. #body .. "\r\n"
  local tail = "\r\n\r\n" .. body
  local sent = 0
  if keys == "none" then
    request = function()
      return head .. "X-Request-Id: " .. prefix .. "same" .. tail
    end
  elseif keys == "same" then
    request = function()
      return head .. "Idempotency-Key: " .. prefix .. "same" .. tail
    end
  else
    request = function()
      sent = sent + 1
      return head .. "Idempotency-Key: " .. prefix .. sent .. tail
    end
  end
end
