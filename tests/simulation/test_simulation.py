import os
import time
import traceback

import pytest
from dice import minimal
from world import World
