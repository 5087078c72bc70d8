"""Counts words that arrive over a socket: the classic SocketTextStreamWordCount.

    penstock run examples/socket_word_count.py HOST PORT

Start a server of lines first, for example ``nc -lk 9999``.
"""

import argparse

from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    (
        env.socket_text_stream(arguments.host, arguments.port)
        .flat_map(
            lambda line: [(word, 1) for word in line.lower().split()],
            output_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
        )
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .sum(1)
        .print()
    )
    env.execute("SocketTextStreamWordCount")
