"""Watches the waves of simulation.c, tells it how strong its paddle shall be, and draws what came: analysis.py PICTURE.png

Needs nothing but Python: no MPI, no package. The library is found as any other is (LD_LIBRARY_PATH).
"""
import array
import ctypes
import math
import struct
import sys
import zlib

INT, FLOAT, DOUBLE = 0x80001, 0x80004, 0x80005
GEOMETRY_TAG, FIELD_TAG, STRENGTH_TAG = 1, 2, 3
# How high the waves behind the wall shall be (the root of the mean square), at first and in the end; and after how many frames they show
# there what the paddle has done.
WANTED, LATE = (0.05, 0.1), 10

waitio = ctypes.CDLL("libwaitio_mpi.so")
waitio.waitio_error.restype = ctypes.c_char_p


class Request(ctypes.Structure):
    _fields_ = [("words", ctypes.c_ulong * 11)]


def call(function, *arguments):
    if function(*arguments) != 0:
        sys.exit(f"analysis: {waitio.waitio_error().decode()}")


def receive(kind, number, count, peer, tag):
    """Values of one rank."""
    values = (kind * count)()
    call(waitio.waitio_mpi_recv, values, count, number, peer, tag, world)
    return values


def receive_field():
    """The rows of all ranks at once, each to its place; gives the field row by row."""
    field = (ctypes.c_float * (columns * rows))()
    requests = (Request * ranks)()
    for peer, (first, count) in enumerate(parts):
        place = ctypes.byref(field, first * columns * 4)
        request = ctypes.byref(requests, peer * ctypes.sizeof(Request))
        call(waitio.waitio_mpi_irecv, place, count * columns, FLOAT, peer, FIELD_TAG, world, request)
    call(waitio.waitio_mpi_waitall, ranks, requests, None)
    flat = array.array("f", field)
    return [flat[row * columns : (row + 1) * columns] for row in range(rows)]


def mean_square(values):
    """Exact, and so the same in any order."""
    return math.fsum(value * value for value in values) / len(values)


# ---- the conversation ----

world, blocks, counts = ctypes.c_void_p(), ctypes.c_int(), (ctypes.c_int * 64)()
call(waitio.waitio_create_universe, ctypes.byref(world))
call(waitio.waitio_pb_size, ctypes.byref(blocks))
waitio.waitio_get_nprocs(counts)
if blocks.value != 2 or counts[1] != 1:
    sys.exit("analysis: this should be the one process of the second block of two")
ranks = counts[0]
told = [receive(ctypes.c_int, INT, 6, peer, GEOMETRY_TAG) for peer in range(ranks)]
columns, rows, frames, wall_at = told[0][0], told[0][1], told[0][2], told[0][5]
parts = [(geometry[3], geometry[4]) for geometry in told]
wall = receive_field()

# What is right behind the wall; and the column where the screen stands.
inside = (wall_at + 10, wall_at + 60)
screen_at = columns - 32
strength, history, screen = 0.02, [], [0.0] * rows
for frame in range(frames):
    field = receive_field()
    height = math.sqrt(mean_square([value for row in field[30:-30] for value in row[inside[0] : inside[1]]]))
    largest = max(max(map(abs, row)) for row in field)
    wanted = WANTED[0] if frame < frames // 2 else WANTED[1]
    # Waves are as high as the paddle is strong: what it did then has made what is there now.
    if frame >= 2 * LATE:
        strength += 0.3 * (wanted * history[frame - LATE][1] / height - strength)
    # The screen sees light and no waves: squares, summed up.
    if frame >= frames // 2:
        for at in range(rows):
            screen[at] += field[at][screen_at] ** 2
    for peer in range(ranks):
        call(waitio.waitio_mpi_send, ctypes.byref(ctypes.c_double(strength)), 1, DOUBLE, peer, STRENGTH_TAG, world)
    history.append((height, strength, wanted))
    if frame % 6 == 5:
        print(f"frame {frame + 1}: height {height:.4f}, largest {largest:.4f}, strength {strength:.4f}", flush=True)

# Where it is bright on the screen: the middle of what is lit by half or more, line by line.
lit, lines = max(screen) / 2, [[]]
for at, bright in enumerate(screen):
    if bright >= lit:
        lines[-1].append((at, bright))
    elif lines[-1]:
        lines.append([])
middles = [sum(at * bright for at, bright in line) / sum(bright for _, bright in line) for line in lines if line]
print("bright lines at", ", ".join(f"{middle:.1f}" for middle in middles))


# ---- the picture ----

SCALE = 3
NIGHT, TROUGH, WATER, CREST, FOAM = (6, 12, 34), (14, 48, 110), (24, 96, 150), (120, 210, 215), (255, 250, 232)
STOPS = [NIGHT, TROUGH, WATER, CREST, FOAM]
STONE, PAPER, INK, WARM, GRID = (58, 50, 48), (250, 247, 240), (40, 44, 60), (214, 90, 48), (220, 214, 202)


def mixed(one, two, part):
    return tuple(int(a + (b - a) * part + 0.5) for a, b in zip(one, two))


def palette():
    """256 colours, from the deepest trough to the highest crest."""
    colours = []
    for index in range(256):
        place = index / 255 * (len(STOPS) - 1)
        at = min(int(place), len(STOPS) - 2)
        colours.append(mixed(STOPS[at], STOPS[at + 1], place - at))
    return colours


class Picture:
    def __init__(self, width, height, colour):
        self.width, self.height = width, height
        self.lines = [bytearray(bytes(colour) * width) for _ in range(height)]

    def dot(self, x, y, colour):
        if 0 <= x < self.width and 0 <= y < self.height:
            self.lines[y][3 * x : 3 * x + 3] = bytes(colour)

    def line(self, points, colour):
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0)) * 2))
            for step in range(steps + 1):
                x, y = x0 + (x1 - x0) * step / steps, y0 + (y1 - y0) * step / steps
                for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
                    self.dot(int(x) + dx, int(y) + dy, colour)

    def save(self, path):
        def chunk(name, data):
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

        raw = b"".join(b"\0" + bytes(line) for line in self.lines)
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def between(field, x, y):
    """The field at a place between cells."""
    left, low = min(int(x), columns - 2), min(int(y), rows - 2)
    a, b, one, two = x - left, y - low, field[low], field[low + 1]
    return (one[left] * (1 - a) + one[left + 1] * a) * (1 - b) + (two[left] * (1 - a) + two[left + 1] * a) * b


def draw(path):
    wide, high, side, chart, gap = columns * SCALE, rows * SCALE, 150, 150, 16
    picture = Picture(wide + side + 3 * gap, high + chart + 3 * gap, PAPER)
    colours = palette()
    # The last frame: colour by height, lit from the upper left.
    for y in range(high):
        line = bytearray()
        for x in range(wide):
            if wall[y // SCALE][x // SCALE]:
                line += bytes(STONE)
                continue
            u, v = x / SCALE, y / SCALE
            here = between(field, u, v)
            slope = here - between(field, max(u - 1, 0), max(v - 1, 0))
            # Low waves are seen beside high ones: tanh.
            shade = 0.5 + 0.42 * math.tanh(here / (2.2 * wanted)) + 0.9 * slope
            line += bytes(colours[int(255 * min(1, max(0, shade)))])
        picture.lines[gap + y][3 * gap : 3 * (gap + wide)] = line
    # Where the screen stands, and how bright each row of it is.
    for y in range(0, high, 6):
        for part in range(3):
            picture.dot(gap + screen_at * SCALE, gap + y + part, FOAM)
    brightest = max(screen) or 1
    left = 2 * gap + wide
    for y in range(high):
        at = y / SCALE
        low = min(int(at), rows - 2)
        bright = (screen[low] * (1 - at + low) + screen[low + 1] * (at - low)) / brightest
        for x in range(side):
            is_lit = x < bright * (side - 4)
            picture.dot(left + x, gap + y, mixed(NIGHT, FOAM, min(1, bright) ** 0.6) if is_lit else mixed(PAPER, GRID, 0.45))
    # Below, frame by frame: the height of the waves (blue), what was wanted (dashes), and the strength of the paddle (red).
    top, width = 2 * gap + high, wide + side + gap
    for y in range(chart):
        picture.lines[top + y][3 * gap : 3 * (gap + width)] = bytes(mixed(PAPER, GRID, 0.45)) * width
    curves = list(zip(*history))
    most = [1.12 * max(curves[0] + curves[2]), 1.12 * max(curves[1])]

    def curve(values, largest):
        step = (width - 2) / (frames - 1)
        return [(gap + frame * step, top + chart - 2 - value / largest * (chart - 4)) for frame, value in enumerate(values)]

    for x, y in curve(curves[2], most[0])[:-1]:
        picture.line([(x, y), (x + 7, y)], INK)
    picture.line(curve(curves[1], most[1]), WARM)
    picture.line(curve(curves[0], most[0]), WATER)
    picture.save(path)
    print(f"picture of {picture.width} x {picture.height}")


if len(sys.argv) > 1:
    draw(sys.argv[1])
