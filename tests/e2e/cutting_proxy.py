"""Stands between the blocks and their relay, and cuts everything that it carries: after so many bytes, so many times.

cutting_proxy.py BYTES TIMES ADDRESS:FROM:TO ...

Whoever comes to port FROM of an address is carried to port TO of the same address. A cut closes all connections at once; what
was on its way is gone. It says `listening`, then `cut N` each time.
"""

import selectors
import socket
import sys


def main() -> None:
    every, times = int(sys.argv[1]), int(sys.argv[2])
    waiting = selectors.DefaultSelector()
    for place in sys.argv[3:]:
        address, front, back = place.split(":")
        listener = socket.create_server((address, int(front)))
        listener.setblocking(False)
        waiting.register(listener, selectors.EVENT_READ, (address, int(back)))
    print("listening", flush=True)
    other, carried, cuts = {}, 0, 0
    while True:
        for key, _ in waiting.select():
            here = key.fileobj
            if isinstance(key.data, tuple):
                try:
                    one, _ = here.accept()
                except OSError:
                    continue
                try:
                    two = socket.create_connection(key.data, timeout=2)
                except OSError:
                    one.close()
                    continue
                for side, far in ((one, two), (two, one)):
                    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    side.settimeout(20)
                    other[side] = far
                    waiting.register(side, selectors.EVENT_READ, "carry")
                continue
            if here not in other:
                continue
            try:
                data = here.recv(1 << 20)
                if data:
                    other[here].sendall(data)
            except OSError:
                data = b""
            carried += len(data)
            gone = list(other) if carried >= every and cuts < times else [] if data else [here, other[here]]
            if carried >= every and cuts < times:
                carried, cuts = 0, cuts + 1
                print("cut", cuts, flush=True)
            for side in gone:
                waiting.unregister(side)
                del other[side]
                side.close()


main()
