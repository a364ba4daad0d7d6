"""The world, behind the ports. Only `tenuto.app` wires what is here."""
